"""Rows to what templates and sockets show: shaping and reading, never writing.

`markdown` and `values` turn what others wrote into something harmless, `transcript` and `requests`
shape what stands in a conversation, `pages` and `frames` are whole pages and what keeps them live.
"""
