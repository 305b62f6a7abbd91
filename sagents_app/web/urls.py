"""The app's pages. What people do is a POST to the noun that it makes."""

from __future__ import annotations

from django.urls import path

from sagents_app.web import decisions, views

app_name = "sagents"
urlpatterns = [
    path("", views.conversation_list, name="conversations"),
    path("conversations/", views.new_conversation, name="new-conversation"),
    path("conversations/<uuid:pk>/", views.conversation, name="conversation"),
    path("conversations/<uuid:pk>/messages/", views.new_message, name="new-message"),
    path("conversations/<uuid:pk>/cancel/", views.cancel, name="cancel"),
    path("conversations/<uuid:pk>/retry/", views.retry, name="retry"),
    path("conversations/<uuid:pk>/title/", views.rename, name="rename"),
    path("conversations/<uuid:pk>/delete/", views.delete, name="delete"),
    path("inbox/<uuid:pk>/withdrawal/", views.withdraw, name="withdraw"),
    path("interrupts/<uuid:pk>/approval/", decisions.approve, name="approve"),
    path("interrupts/<uuid:pk>/edit/", decisions.edit, name="edit"),
    path("interrupts/<uuid:pk>/rejection/", decisions.reject, name="reject"),
    path("interrupts/<uuid:pk>/response/", decisions.respond, name="respond"),
    path("interrupts/<uuid:pk>/answer/", decisions.answer, name="answer"),
    path("interrupts/<uuid:pk>/dismissal/", decisions.dismiss, name="dismiss"),
    path("interrupts/<uuid:pk>/withdrawal/", decisions.withdraw, name="withdraw-request"),
]
