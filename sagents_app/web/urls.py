"""The app's pages. What people do is a POST to the noun that it makes."""

from __future__ import annotations

from django.urls import path

from sagents_app.web import decisions, views

app_name = "sagents"
urlpatterns = [
    path("", views.conversation_list, name="conversations"),
    path("conversations/", views.new_conversation, name="new-conversation"),
    path("conversations/<uuid:pk>/", views.conversation, name="conversation"),
    path("conversations/<uuid:pk>/before/<int:before>/", views.earlier, name="earlier"),
    path("conversations/<uuid:pk>/messages/", views.new_message, name="new-message"),
    path("conversations/<uuid:pk>/withdrawal/", views.withdraw_message, name="withdraw-message"),
    path("conversations/<uuid:pk>/cancellation/", views.cancel, name="cancel"),
    path("conversations/<uuid:pk>/retry/", views.retry, name="retry"),
    path("conversations/<uuid:pk>/title/", views.rename, name="rename"),
    path("conversations/<uuid:pk>/deletion/", views.delete, name="delete"),
    path("interrupts/<uuid:pk>/decision/", decisions.decide, name="decide"),
    path("interrupts/<uuid:pk>/answer/", decisions.answer, name="answer"),
    path("interrupts/<uuid:pk>/dismissal/", decisions.dismiss, name="dismiss"),
    path("interrupts/<uuid:pk>/withdrawal/", decisions.withdraw, name="withdraw-request"),
]
