"""The shop's orders, and the four that every demonstration begins with."""

from django.db import migrations, models

ORDERS = (
    ("1001", "Espresso machine", "249.00", "delivered", False),
    ("1002", "Coffee grinder", "89.50", "shipped", False),
    ("1003", "Milk jug", "18.90", "delivered", False),
    ("1004", "Copper kettle", "135.00", "delivered", True),
)


def stock(apps, schema_editor):
    """Add the orders."""
    order = apps.get_model("demo", "Order")
    for number, item, total, status, disputed in ORDERS:
        order.objects.create(
            number=number, item=item, total=total, status=status, disputed=disputed
        )


class Migration(migrations.Migration):
    initial = True
    dependencies = []
    operations = [
        migrations.CreateModel(
            name="Order",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("number", models.CharField(max_length=16, unique=True)),
                ("item", models.CharField(max_length=100)),
                ("total", models.DecimalField(decimal_places=2, max_digits=8)),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("shipped", "shipped"),
                            ("delivered", "delivered"),
                            ("refunded", "refunded"),
                            ("deleted", "deleted"),
                        ],
                        max_length=16,
                    ),
                ),
                ("disputed", models.BooleanField(default=False)),
                ("refunded", models.DecimalField(decimal_places=2, default=0, max_digits=8)),
                ("refund_key", models.CharField(blank=True, max_length=200)),
            ],
            options={"ordering": ("number",)},
        ),
        migrations.RunPython(stock, migrations.RunPython.noop),
    ]
