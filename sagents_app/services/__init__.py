"""The only code that writes rows. Everything above translates, everything below is read."""
