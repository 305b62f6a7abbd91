"""The demonstration: a small shop's support agent, its orders, and the scripted model behind it."""
