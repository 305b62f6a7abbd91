"""Django's settings, read from the environment alone. Every variable: docs/settings.md.

With `DEBUG` off, whatever would be unsafe or would silently not work is refused with the variable's
name.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import dj_database_url
from django.core.exceptions import ImproperlyConfigured

from project import environment, secret_key

BASE_DIR = Path(__file__).resolve().parent.parent
VAR_DIR = BASE_DIR / "var"

DEBUG = environment.flag("DEBUG")
# One process of `manage.py sagents_dev` is the whole product: SQLite, no Redis.
EMBEDDED = environment.flag("SAGENTS_EMBEDDED", default=DEBUG)

DATABASE_URL = environment.text("DATABASE_URL")
REDIS_URL = environment.text("REDIS_URL")


def refuse(variable: str, reason: str) -> None:
    """Stop the start over one variable."""
    raise ImproperlyConfigured(f"{variable} {reason} (see docs/settings.md)")


# --- Who may speak to it

SECRET_KEY = environment.text("SECRET_KEY")
ALLOWED_HOSTS = environment.items("ALLOWED_HOSTS")
CSRF_TRUSTED_ORIGINS = environment.items("CSRF_TRUSTED_ORIGINS")

if DEBUG:
    SECRET_KEY = SECRET_KEY or secret_key.read_or_make(VAR_DIR / "secret_key")
    ALLOWED_HOSTS = ALLOWED_HOSTS or [".localhost", "127.0.0.1", "[::1]"]
else:
    if not SECRET_KEY:
        refuse("SECRET_KEY", "must be set with DEBUG off; set DEBUG=1 for development")
    if len(SECRET_KEY) < 50 or len(set(SECRET_KEY)) < 5:
        refuse("SECRET_KEY", "must be at least 50 random characters")
    if not ALLOWED_HOSTS or "*" in ALLOWED_HOSTS:
        refuse("ALLOWED_HOSTS", "must list the host names that are served, without '*'")
    if not EMBEDDED and not DATABASE_URL.startswith(("postgres://", "postgresql://")):
        refuse(
            "DATABASE_URL",
            "must name a PostgreSQL database with DEBUG off; SAGENTS_EMBEDDED=1 runs on SQLite",
        )
    if not EMBEDDED and not REDIS_URL:
        refuse("REDIS_URL", "must be set with DEBUG off; SAGENTS_EMBEDDED=1 runs without Redis")

for origin in CSRF_TRUSTED_ORIGINS:
    if not origin.startswith(("https://", "http://")):
        refuse("CSRF_TRUSTED_ORIGINS", f"must list origins with their scheme, got {origin!r}")

# A browser keeps to HTTPS from the first answer on; a site that is not yet sure sets a short HSTS
# time.
SECURE_SSL_REDIRECT = environment.flag("SECURE_SSL_REDIRECT", default=not DEBUG)
SECURE_REDIRECT_EXEMPT = [r"^health/(live|ready)$"]
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = environment.flag("SECURE_COOKIES", default=not DEBUG)
SECURE_HSTS_SECONDS = environment.number("SECURE_HSTS_SECONDS", 0 if DEBUG else 3600)
SECURE_HSTS_INCLUDE_SUBDOMAINS = environment.flag("SECURE_HSTS_INCLUDE_SUBDOMAINS")
SECURE_HSTS_PRELOAD = environment.flag("SECURE_HSTS_PRELOAD")
if environment.flag("TRUST_FORWARDED_PROTO"):
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
SESSION_COOKIE_HTTPONLY = True
X_FRAME_OPTIONS = "DENY"
SECURE_REFERRER_POLICY = "same-origin"

# --- What it is made of

INSTALLED_APPS = [
    "sagents_app",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "project.demo",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    *([] if DEBUG else ["whitenoise.middleware.WhiteNoiseMiddleware"]),
    "sagents_app.web.security.ContentSecurityPolicyMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "project.urls"
ASGI_APPLICATION = "project.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

LANGUAGE_CODE = "en"
TIME_ZONE = environment.text("TIME_ZONE", "UTC")
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# --- Where it keeps things


def database() -> dict[str, Any]:
    """Return the default database from DATABASE_URL."""
    config: dict[str, Any] = {
        **dj_database_url.parse(DATABASE_URL or f"sqlite:///{VAR_DIR}/db.sqlite3")
    }
    options: dict[str, Any] = config.setdefault("OPTIONS", {})
    if config["ENGINE"] == "django.db.backends.sqlite3":
        # IMMEDIATE takes the write lock when a transaction starts: one that reads first and writes
        # later otherwise fails at once as soon as another has written between, whatever the
        # timeout.
        options |= {
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": (
                "PRAGMA journal_mode=WAL;PRAGMA synchronous=NORMAL;PRAGMA mmap_size=134217728;"
                "PRAGMA journal_size_limit=27103364;PRAGMA cache_size=2000;"
            ),
        }
    else:
        options.setdefault("connect_timeout", 5)
        pool = environment.number("DATABASE_POOL_SIZE", 0)
        if pool:
            options["pool"] = {"min_size": 1, "max_size": pool, "timeout": 10}
        else:
            # A web process asks the database in short hops on many threads, each of which would
            # connect anew.
            config |= {"CONN_MAX_AGE": 60, "CONN_HEALTH_CHECKS": True}
    config["TEST"] = {"NAME": environment.text("TEST_DATABASE_NAME") or None}
    return config


VAR_DIR.mkdir(exist_ok=True)
DATABASES = {"default": database()}

STATIC_URL = "static/"
STATIC_ROOT = environment.text("STATIC_ROOT", str(BASE_DIR / "staticfiles"))
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"
        if DEBUG
        else "whitenoise.storage.CompressedManifestStaticFilesStorage"
    },
}
# WhiteNoise answers with files that are read synchronously, which Django reports for each of them
# under ASGI; they are small and come from a local disk.
warnings.filterwarnings(
    "ignore", message="StreamingHttpResponse must consume synchronous iterators"
)

if REDIS_URL:
    CHANNEL_LAYERS = {
        "default": {
            "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
            "CONFIG": {"hosts": [REDIS_URL]},
        }
    }
else:
    CHANNEL_LAYERS = {
        "default": {"BACKEND": "sagents_app.web.memory_layer.ThreadSafeInMemoryChannelLayer"}
    }

# --- The workers

# A request that publishes waits for the broker a second at most; a worker waits for tasks in its
# event loop, which these limits do not touch.
CELERY_BROKER_URL = REDIS_URL or "memory://localhost"
CELERY_BROKER_TRANSPORT_OPTIONS: dict[str, Any] = (
    {
        "visibility_timeout": 3600,
        "unacked_restore_interval": 10,
        "unacked_restore_throttle": 1,
        "socket_connect_timeout": 1,
        "socket_timeout": 1,
    }
    if REDIS_URL
    else {"polling_interval": 0.02}
)
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_TIMEOUT = 1
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_SERIALIZER = "json"
CELERY_TASK_DEFAULT_QUEUE = "sagents"
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_TASK_ACKS_ON_FAILURE_OR_TIMEOUT = True
# Publishing happens in requests. What cannot be sent at once stays in the database, where the sweep
# finds it.
CELERY_TASK_PUBLISH_RETRY = False
CELERY_WORKER_POOL = "threads"
CELERY_WORKER_CONCURRENCY = environment.number("WORKER_CONCURRENCY", 32)
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_SOFT_SHUTDOWN_TIMEOUT = 20
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_TIMEZONE = TIME_ZONE

# --- People

LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "login"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]

DEFAULT_FROM_EMAIL = SERVER_EMAIL = environment.text("DEFAULT_FROM_EMAIL", "sagents@localhost")
_mail = environment.mail_server(
    "EMAIL_URL", default=environment.CONSOLE_MAIL if DEBUG else environment.MailServer()
)
EMAIL_BACKEND = _mail.backend
EMAIL_HOST, EMAIL_PORT = _mail.host, _mail.port
EMAIL_HOST_USER, EMAIL_HOST_PASSWORD = _mail.user, _mail.password
EMAIL_USE_TLS, EMAIL_USE_SSL = _mail.tls, _mail.ssl
EMAIL_TIMEOUT = 10

# --- What it tells its operators

LOG_LEVEL = environment.text("LOG_LEVEL", "INFO").upper()
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {"format": "{asctime} {levelname} {name}: {message}", "style": "{"},
    },
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["console"], "level": "WARNING"},
    "loggers": {
        "django": {"handlers": ["console"], "level": "INFO", "propagate": False},
        "sagents_app": {"level": LOG_LEVEL},
        "celery.apps.worker": {"level": "INFO"},
    },
}

# --- The agents

SAGENTS_MODEL = environment.text("SAGENTS_MODEL")
SAGENTS_MODEL_BASE_URL = environment.text("SAGENTS_MODEL_BASE_URL")
SAGENTS_MODEL_API_KEY = environment.text("SAGENTS_MODEL_API_KEY")
SAGENTS_TENANT = environment.text("SAGENTS_TENANT")
