"""The project's URLs: the admin, accounts, health and the app's pages."""

from django.contrib import admin
from django.urls import include, path

from sagents_app.web import health

urlpatterns = [
    path("admin/", admin.site.urls),
    path("accounts/", include("django.contrib.auth.urls")),
    path("health/live", health.live, name="health-live"),
    path("health/ready", health.ready, name="health-ready"),
    path("", include("sagents_app.web.urls")),
]
