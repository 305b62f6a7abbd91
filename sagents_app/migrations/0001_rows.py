import uuid

import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Conversation",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=uuid.uuid4, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant", models.CharField(blank=True, default="", max_length=200)),
                ("agent_name", models.CharField(max_length=100, verbose_name="agent")),
                ("agent_version", models.CharField(default="1", max_length=100)),
                (
                    "title",
                    models.CharField(blank=True, default="", max_length=255, verbose_name="title"),
                ),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("idle", "idle"),
                            ("running", "running"),
                            ("interrupted", "waiting"),
                            ("paused", "paused"),
                            ("cancelled", "cancelled"),
                            ("error", "error"),
                        ],
                        default="idle",
                        max_length=16,
                        verbose_name="status",
                    ),
                ),
                ("lease_token", models.UUIDField(blank=True, editable=False, null=True)),
                ("lease_until", models.DateTimeField(blank=True, editable=False, null=True)),
                ("next_event_number", models.BigIntegerField(default=1, editable=False)),
                ("next_display_number", models.BigIntegerField(default=1, editable=False)),
                ("automatic_runs", models.PositiveIntegerField(default=0, editable=False)),
                ("created_at", models.DateTimeField(auto_now_add=True, verbose_name="created")),
                ("updated_at", models.DateTimeField(auto_now=True, verbose_name="last change")),
                (
                    "owner",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="sagents_conversations",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "verbose_name": "conversation",
                "verbose_name_plural": "conversations",
                "ordering": ("-updated_at", "-id"),
                "permissions": (
                    ("operate_conversation", "Can cancel, retry and repair conversations"),
                ),
            },
        ),
        migrations.CreateModel(
            name="Sweep",
            fields=[
                ("name", models.CharField(max_length=32, primary_key=True, serialize=False)),
                ("next_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="SavedState",
            fields=[
                (
                    "conversation",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="saved_state",
                        serialize=False,
                        to="sagents_app.conversation",
                    ),
                ),
                ("data", models.JSONField(default=dict)),
                ("version", models.PositiveIntegerField(default=0)),
                ("updated_at", models.DateTimeField(auto_now=True)),
            ],
        ),
        migrations.CreateModel(
            name="AgentMessage",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("position", models.PositiveIntegerField()),
                ("data", models.JSONField()),
                (
                    "conversation",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="agent_messages",
                        to="sagents_app.conversation",
                    ),
                ),
            ],
            options={
                "ordering": ("conversation", "position"),
            },
        ),
        migrations.CreateModel(
            name="DisplayMessage",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=uuid.uuid4, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("number", models.BigIntegerField()),
                (
                    "message_type",
                    models.CharField(
                        choices=[
                            ("user", "user"),
                            ("assistant", "assistant"),
                            ("tool", "tool"),
                            ("system", "system"),
                        ],
                        max_length=16,
                    ),
                ),
                (
                    "content_type",
                    models.CharField(
                        choices=[
                            ("text", "text"),
                            ("thinking", "thinking"),
                            ("tool_call", "tool call"),
                            ("tool_result", "tool result"),
                            ("halt", "halt"),
                            ("notification", "notification"),
                            ("error", "error"),
                            ("image", "image"),
                            ("file_reference", "file"),
                            ("structured_data", "data"),
                            ("todo_snapshot", "plan"),
                        ],
                        max_length=16,
                    ),
                ),
                ("content", models.JSONField(default=dict)),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("queued", "queued"),
                            ("withdrawn", "withdrawn"),
                            ("pending", "pending"),
                            ("executing", "running"),
                            ("completed", "done"),
                            ("failed", "failed"),
                            ("interrupted", "waiting"),
                            ("cancelled", "cancelled"),
                        ],
                        default="completed",
                        max_length=16,
                    ),
                ),
                ("tool_call_id", models.CharField(blank=True, default="", max_length=64)),
                ("metadata", models.JSONField(default=dict)),
                ("run_id", models.UUIDField(blank=True, null=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "conversation",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="display_messages",
                        to="sagents_app.conversation",
                    ),
                ),
            ],
            options={
                "verbose_name": "transcript row",
                "verbose_name_plural": "transcript rows",
                "ordering": ("conversation", "number"),
            },
        ),
        migrations.CreateModel(
            name="Event",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("number", models.BigIntegerField()),
                ("type", models.CharField(max_length=32)),
                ("payload", models.JSONField(default=dict)),
                ("run_id", models.UUIDField(blank=True, null=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "conversation",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="events",
                        to="sagents_app.conversation",
                    ),
                ),
            ],
            options={
                "verbose_name": "event",
                "verbose_name_plural": "events",
                "ordering": ("conversation", "number"),
            },
        ),
        migrations.CreateModel(
            name="InboxMessage",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=uuid.uuid4, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("client_id", models.CharField(blank=True, max_length=64, null=True)),
                ("text", models.TextField()),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("queued", "queued"),
                            ("delivered", "delivered"),
                            ("withdrawn", "withdrawn"),
                        ],
                        default="queued",
                        max_length=16,
                    ),
                ),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("delivered_at", models.DateTimeField(blank=True, null=True)),
                (
                    "author",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "conversation",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="inbox",
                        to="sagents_app.conversation",
                    ),
                ),
                (
                    "display_message",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE, to="sagents_app.displaymessage"
                    ),
                ),
            ],
            options={
                "verbose_name": "queued message",
                "verbose_name_plural": "queued messages",
                "ordering": ("conversation", "display_message__number"),
            },
        ),
        migrations.CreateModel(
            name="Interrupt",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=uuid.uuid4, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("run_id", models.UUIDField()),
                ("batch", models.UUIDField()),
                ("position", models.PositiveSmallIntegerField(default=0)),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("approval", "approval"),
                            ("ask_user_question", "question"),
                            ("halt", "halt"),
                            ("unknown_outcome", "unknown outcome"),
                            ("budget", "budget"),
                            ("unknown", "unknown"),
                        ],
                        max_length=32,
                        verbose_name="kind",
                    ),
                ),
                ("tool_call_id", models.CharField(max_length=64)),
                (
                    "tool_name",
                    models.CharField(blank=True, default="", max_length=64, verbose_name="tool"),
                ),
                ("display_text", models.CharField(blank=True, default="", max_length=255)),
                ("arguments", models.TextField(default="{}")),
                ("digest", models.CharField(max_length=64)),
                ("allowed_decisions", models.JSONField(default=list)),
                ("path", models.JSONField(default=list)),
                ("payload", models.JSONField(default=dict)),
                ("review_rule", models.JSONField(default=dict)),
                (
                    "permission",
                    models.CharField(default="sagents_app.decide_interrupt", max_length=150),
                ),
                ("group", models.CharField(blank=True, default="", max_length=150)),
                ("owner_may_decide", models.BooleanField(default=False)),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("pending", "waiting"),
                            ("approved", "approved"),
                            ("edited", "approved with changes"),
                            ("rejected", "rejected"),
                            ("answered", "answered"),
                            ("dismissed", "dismissed"),
                            ("superseded", "superseded"),
                            ("cancelled", "cancelled"),
                            ("expired", "expired"),
                        ],
                        default="pending",
                        max_length=16,
                        verbose_name="status",
                    ),
                ),
                ("decision", models.JSONField(blank=True, null=True)),
                ("decided_at", models.DateTimeField(blank=True, null=True, verbose_name="decided")),
                ("note", models.TextField(blank=True, default="")),
                ("executed_arguments", models.TextField(blank=True, default="")),
                ("expires_at", models.DateTimeField(blank=True, null=True)),
                ("created_at", models.DateTimeField(auto_now_add=True, verbose_name="asked")),
                (
                    "conversation",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="interrupts",
                        to="sagents_app.conversation",
                    ),
                ),
                (
                    "decided_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="sagents_decided_interrupts",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "verbose_name": "review request",
                "verbose_name_plural": "review requests",
                "ordering": ("created_at", "position"),
                "permissions": (("decide_interrupt", "Can decide review requests"),),
            },
        ),
        migrations.CreateModel(
            name="InterruptDecision",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "outcome",
                    models.CharField(
                        choices=[("accepted", "accepted"), ("refused", "refused")], max_length=16
                    ),
                ),
                ("cause", models.CharField(default="decided", max_length=32)),
                ("decision", models.JSONField(default=dict)),
                ("digest", models.CharField(blank=True, default="", max_length=64)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "actor",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="sagents_interrupt_decisions",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "interrupt",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="decisions",
                        to="sagents_app.interrupt",
                    ),
                ),
            ],
            options={
                "verbose_name": "decision",
                "verbose_name_plural": "decisions",
                "ordering": ("created_at", "pk"),
            },
        ),
        migrations.CreateModel(
            name="Run",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=uuid.uuid4, editable=False, primary_key=True, serialize=False
                    ),
                ),
                (
                    "trigger",
                    models.CharField(
                        choices=[
                            ("message", "message"),
                            ("decision", "decision"),
                            ("resume", "resumed"),
                            ("retry", "retried"),
                        ],
                        max_length=16,
                    ),
                ),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("queued", "queued"),
                            ("running", "running"),
                            ("completed", "completed"),
                            ("interrupted", "waiting"),
                            ("paused", "paused"),
                            ("cancelled", "cancelled"),
                            ("failed", "failed"),
                        ],
                        default="queued",
                        max_length=16,
                    ),
                ),
                ("attempt", models.PositiveSmallIntegerField(default=0)),
                ("worker", models.CharField(blank=True, default="", max_length=200)),
                ("cause", models.TextField(blank=True, default="")),
                ("error_type", models.CharField(blank=True, default="", max_length=64)),
                ("cancel_requested_at", models.DateTimeField(blank=True, null=True)),
                ("wake_at", models.DateTimeField(blank=True, null=True)),
                ("input_tokens", models.PositiveBigIntegerField(default=0)),
                ("output_tokens", models.PositiveBigIntegerField(default=0)),
                ("model_calls", models.PositiveIntegerField(default=0)),
                (
                    "cost",
                    models.DecimalField(blank=True, decimal_places=6, max_digits=14, null=True),
                ),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "sent_at",
                    models.DateTimeField(blank=True, default=django.utils.timezone.now, null=True),
                ),
                ("started_at", models.DateTimeField(blank=True, null=True)),
                ("finished_at", models.DateTimeField(blank=True, null=True)),
                (
                    "acting_user",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="sagents_runs",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "cancel_requested_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="sagents_cancelled_runs",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "conversation",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="runs",
                        to="sagents_app.conversation",
                    ),
                ),
            ],
            options={
                "verbose_name": "run",
                "verbose_name_plural": "runs",
                "ordering": ("-created_at",),
            },
        ),
        migrations.CreateModel(
            name="ToolExecution",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("run_id", models.UUIDField()),
                ("call_id", models.CharField(max_length=64)),
                ("tool_name", models.CharField(max_length=64)),
                ("arguments", models.TextField()),
                (
                    "status",
                    models.CharField(
                        choices=[("started", "started"), ("finished", "finished")],
                        default="started",
                        max_length=16,
                    ),
                ),
                ("result", models.JSONField(blank=True, null=True)),
                ("attempts", models.PositiveSmallIntegerField(default=1)),
                ("started_at", models.DateTimeField()),
                ("finished_at", models.DateTimeField(blank=True, null=True)),
                (
                    "conversation",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="tool_executions",
                        to="sagents_app.conversation",
                    ),
                ),
            ],
            options={
                "verbose_name": "tool execution",
                "verbose_name_plural": "tool executions",
                "ordering": ("pk",),
            },
        ),
        migrations.AddIndex(
            model_name="conversation",
            index=models.Index(fields=["owner", "-updated_at"], name="conversation_owner"),
        ),
        migrations.AddIndex(
            model_name="conversation",
            index=models.Index(
                fields=["tenant", "status", "-updated_at"], name="conversation_status"
            ),
        ),
        migrations.AddIndex(
            model_name="conversation",
            index=models.Index(
                condition=models.Q(("lease_token__isnull", False)),
                fields=["lease_until"],
                name="conversation_lease",
            ),
        ),
        migrations.AddConstraint(
            model_name="conversation",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "status__in",
                        ("idle", "running", "interrupted", "paused", "cancelled", "error"),
                    )
                ),
                name="conversation_status_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="agentmessage",
            constraint=models.UniqueConstraint(
                fields=("conversation", "position"), name="agent_message_position"
            ),
        ),
        migrations.AddConstraint(
            model_name="displaymessage",
            constraint=models.UniqueConstraint(
                fields=("conversation", "number"), name="display_message_number"
            ),
        ),
        migrations.AddConstraint(
            model_name="displaymessage",
            constraint=models.UniqueConstraint(
                condition=models.Q(("content_type", "tool_call")),
                fields=("conversation", "tool_call_id"),
                name="display_message_one_row_a_call",
            ),
        ),
        migrations.AddConstraint(
            model_name="displaymessage",
            constraint=models.UniqueConstraint(
                condition=models.Q(("content_type", "halt")),
                fields=("conversation", "tool_call_id"),
                name="display_message_one_row_a_halt",
            ),
        ),
        migrations.AddConstraint(
            model_name="displaymessage",
            constraint=models.CheckConstraint(
                condition=models.Q(("message_type__in", ("user", "assistant", "tool", "system"))),
                name="display_message_type_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="displaymessage",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "content_type__in",
                        (
                            "text",
                            "thinking",
                            "tool_call",
                            "tool_result",
                            "halt",
                            "notification",
                            "error",
                            "image",
                            "file_reference",
                            "structured_data",
                            "todo_snapshot",
                        ),
                    )
                ),
                name="display_message_content_type_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="displaymessage",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "status__in",
                        (
                            "queued",
                            "withdrawn",
                            "pending",
                            "executing",
                            "completed",
                            "failed",
                            "interrupted",
                            "cancelled",
                        ),
                    )
                ),
                name="display_message_status_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="event",
            constraint=models.UniqueConstraint(
                fields=("conversation", "number"), name="event_number"
            ),
        ),
        migrations.AddIndex(
            model_name="inboxmessage",
            index=models.Index(fields=["conversation", "status"], name="inbox_status"),
        ),
        migrations.AddConstraint(
            model_name="inboxmessage",
            constraint=models.UniqueConstraint(
                condition=models.Q(("client_id__isnull", False)),
                fields=("conversation", "client_id"),
                name="inbox_client_id",
            ),
        ),
        migrations.AddConstraint(
            model_name="inboxmessage",
            constraint=models.CheckConstraint(
                condition=models.Q(("status__in", ("queued", "delivered", "withdrawn"))),
                name="inbox_status_known",
            ),
        ),
        migrations.AddIndex(
            model_name="interrupt",
            index=models.Index(fields=["status", "created_at"], name="interrupt_queue"),
        ),
        migrations.AddIndex(
            model_name="interrupt",
            index=models.Index(fields=["conversation", "status"], name="interrupt_conversation"),
        ),
        migrations.AddIndex(
            model_name="interrupt",
            index=models.Index(fields=["batch"], name="interrupt_batch"),
        ),
        migrations.AddConstraint(
            model_name="interrupt",
            constraint=models.UniqueConstraint(
                condition=models.Q(("status", "pending")),
                fields=("conversation", "tool_call_id"),
                name="interrupt_one_pending_a_call",
            ),
        ),
        migrations.AddConstraint(
            model_name="interrupt",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "status__in",
                        (
                            "pending",
                            "approved",
                            "edited",
                            "rejected",
                            "answered",
                            "dismissed",
                            "superseded",
                            "cancelled",
                            "expired",
                        ),
                    )
                ),
                name="interrupt_status_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="interrupt",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "kind__in",
                        (
                            "approval",
                            "ask_user_question",
                            "halt",
                            "unknown_outcome",
                            "budget",
                            "unknown",
                        ),
                    )
                ),
                name="interrupt_kind_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="interruptdecision",
            constraint=models.CheckConstraint(
                condition=models.Q(("outcome__in", ("accepted", "refused"))),
                name="interrupt_decision_outcome_known",
            ),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(fields=["status", "created_at"], name="run_status"),
        ),
        migrations.AddConstraint(
            model_name="run",
            constraint=models.UniqueConstraint(
                condition=models.Q(("status__in", ("queued", "running"))),
                fields=("conversation",),
                name="run_one_live_a_conversation",
            ),
        ),
        migrations.AddConstraint(
            model_name="run",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "status__in",
                        (
                            "queued",
                            "running",
                            "completed",
                            "interrupted",
                            "paused",
                            "cancelled",
                            "failed",
                        ),
                    )
                ),
                name="run_status_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="run",
            constraint=models.CheckConstraint(
                condition=models.Q(("trigger__in", ("message", "decision", "resume", "retry"))),
                name="run_trigger_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="toolexecution",
            constraint=models.UniqueConstraint(
                fields=("conversation", "call_id"), name="tool_execution_one_a_call"
            ),
        ),
        migrations.AddConstraint(
            model_name="toolexecution",
            constraint=models.CheckConstraint(
                condition=models.Q(("status__in", ("started", "finished"))),
                name="tool_execution_status_known",
            ),
        ),
    ]
