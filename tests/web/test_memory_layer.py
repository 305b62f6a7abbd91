import asyncio
import threading

import pytest
from asgiref.sync import async_to_sync
from channels.exceptions import ChannelFull

from sagents_app.web.memory_layer import ThreadSafeInMemoryChannelLayer


async def join(layer):
    channel = await layer.new_channel()
    await layer.group_add("conversation", channel)
    return channel


def send_from_a_thread(layer, messages):
    def send():
        for message in messages:
            async_to_sync(layer.group_send)("conversation", message)

    thread = threading.Thread(target=send)
    thread.start()
    return thread


async def test_a_message_from_another_thread_wakes_an_idle_loop():
    layer = ThreadSafeInMemoryChannelLayer()
    channel = await join(layer)
    waiting = asyncio.create_task(layer.receive(channel))
    await asyncio.sleep(0)

    send_from_a_thread(layer, [{"type": "poke"}])

    assert await asyncio.wait_for(waiting, 5) == {"type": "poke"}


async def test_messages_from_another_thread_arrive_all_and_in_order():
    layer = ThreadSafeInMemoryChannelLayer(capacity=1000)
    channel = await join(layer)
    sent = [{"type": "poke", "number": number} for number in range(400)]

    send_from_a_thread(layer, sent)

    async with asyncio.timeout(10):
        assert [await layer.receive(channel) for _ in sent] == sent


async def test_a_message_sent_between_two_receives_is_kept():
    layer = ThreadSafeInMemoryChannelLayer()
    channel = await join(layer)
    for number in range(3):
        thread = send_from_a_thread(layer, [{"type": "poke", "number": number}])
        await asyncio.to_thread(thread.join)
        async with asyncio.timeout(5):
            assert (await layer.receive(channel))["number"] == number


async def test_a_receiver_gets_a_copy():
    layer = ThreadSafeInMemoryChannelLayer()
    channel = await join(layer)
    message = {"type": "poke", "items": []}
    await layer.send(channel, message)
    message["items"].append("later")
    assert await layer.receive(channel) == {"type": "poke", "items": []}


async def test_each_channel_of_a_group_gets_a_message_and_a_full_one_misses_it():
    layer = ThreadSafeInMemoryChannelLayer(capacity=1)
    full, free = await join(layer), await join(layer)
    await layer.send(full, {"type": "first"})

    await layer.group_send("conversation", {"type": "poke"})

    assert await layer.receive(free) == {"type": "poke"}
    assert await layer.receive(full) == {"type": "first"}


async def test_a_full_channel_is_an_error_for_a_sender_on_its_own_loop():
    layer = ThreadSafeInMemoryChannelLayer(capacity=1)
    channel = await join(layer)
    await layer.send(channel, {"type": "first"})
    with pytest.raises(ChannelFull):
        await layer.send(channel, {"type": "second"})


async def test_an_expired_message_is_not_delivered():
    layer = ThreadSafeInMemoryChannelLayer(expiry=-1)
    channel = await join(layer)
    await layer.send(channel, {"type": "old"})
    layer.expiry = 60
    await layer.send(channel, {"type": "new"})
    assert await layer.receive(channel) == {"type": "new"}


async def test_a_channel_that_left_its_last_group_is_forgotten():
    layer = ThreadSafeInMemoryChannelLayer()
    channel = await join(layer)
    await layer.group_add("other", channel)

    await layer.group_discard("conversation", channel)
    assert channel in layer.channels

    await layer.group_discard("other", channel)
    await layer.group_send("conversation", {"type": "poke"})
    assert layer.channels == {}
    assert layer.groups == {}


def test_a_message_for_a_loop_that_ended_is_dropped():
    layer = ThreadSafeInMemoryChannelLayer()
    asyncio.run(join(layer))
    asyncio.run(layer.group_send("conversation", {"type": "poke"}))
