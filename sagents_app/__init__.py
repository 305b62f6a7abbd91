"""LLM agents that people oversee, as a Django app.

`sagents_app.engine` is the library that runs an agent and knows no Django; `sagents_app.services`
keeps conversations in the database; `sagents_app.web` and `sagents_app.admin` show them to people.
"""

__version__ = "0.1.0"
