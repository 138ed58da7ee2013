"""Pauses that are cut short."""

import asyncio

from epp.discovery.alarm import Alarm


async def test_a_pause_ends_by_itself():
    assert await Alarm().new_pause()(0.0) is False


async def test_ringing_ends_every_pause():
    alarm = Alarm()
    pauses = [asyncio.create_task(alarm.new_pause()(None)) for _ in range(3)]
    await asyncio.sleep(0)
    alarm.ring()

    assert await asyncio.gather(*pauses) == [True, True, True]


async def test_who_is_not_in_a_pause_finds_the_next_one_cut_short_once():
    alarm = Alarm()
    pause = alarm.new_pause()
    alarm.ring()
    alarm.ring()

    assert await pause(None) is True
    assert await pause(0.0) is False


async def test_a_pause_made_after_the_alarm_rang_does_not_hear_it():
    alarm = Alarm()
    alarm.ring()

    assert await alarm.new_pause()(0.0) is False
