"""What the support agent can do: look up freely; refund and delete only once a person agrees."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from project.demo.models import Order
from sagents_app.engine import Halt, ToolContext, ToolError, tool

REFUNDED = "Refunded {amount:.2f} euros for order {number}."


@tool(read_only=True)
def look_up_order(number: str) -> dict[str, Any]:
    """Look up an order.

    Args:
        number: The order's number, such as 1001.
    """
    order = _order(number)
    return {
        "number": order.number,
        "item": order.item,
        "total": str(order.total),
        "status": order.status,
        "refunded": str(order.refunded),
        "disputed": order.disputed,
    }


@tool(retry_safe=True)
@transaction.atomic
def refund(number: str, amount: Decimal, reason: str, ctx: ToolContext) -> str:
    """Pay money back for an order.

    Args:
        number: The order's number.
        amount: Euros to pay back, at most the order's total.
        reason: Why, in one sentence; the reviewer reads it.
    """
    order = _order(number, Order.objects.select_for_update())
    if order.refund_key == ctx.idempotency_key:
        return REFUNDED.format(amount=amount, number=number)
    if not 0 < amount <= order.total - order.refunded:
        left = order.total - order.refunded
        raise ToolError(f"{amount} euros cannot be refunded: {left} of order {number} are left.")
    order.refunded += amount
    order.refund_key = ctx.idempotency_key
    if order.refunded == order.total:
        order.status = Order.Status.REFUNDED
    order.save()
    return REFUNDED.format(amount=amount, number=number)


@tool(retry_safe=True)
def delete_order(number: str) -> str:
    """Delete an order and the customer's data in it, for good.

    Args:
        number: The order's number.
    """
    order = _order(number)
    order.status = Order.Status.DELETED
    order.save(update_fields=["status"])
    return f"Order {number} was deleted."


@tool(read_only=True)
def check_dispute(number: str) -> str | Halt:
    """Check whether the bank disputes an order's payment; if so, the conversation stops here.

    Args:
        number: The order's number.
    """
    order = _order(number)
    if not order.disputed:
        return f"Nobody disputes the payment of order {number}."
    return Halt(
        f"The bank is looking into the payment of order {number} ({order.item}), so I have to stop "
        "here: nothing may be promised or paid until it is done. Our payments team will write to "
        "you. I can help you with another order meanwhile."
    )


def _order(number: str, orders: QuerySet[Order] | None = None) -> Order:
    orders = Order.objects.all() if orders is None else orders
    order = orders.filter(number=number).exclude(status=Order.Status.DELETED).first()
    if order is None:
        known = ", ".join(Order.objects.values_list("number", flat=True))
        raise ToolError(f"There is no order {number!r}; there are {known}.")
    return order
