"""The project that runs the app: settings, root URLs, the ASGI and Celery applications."""

from project.celery import app as celery_app

__all__ = ["celery_app"]
