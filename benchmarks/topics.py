"""Conversations made of stretches about one thing each, so that every border is known."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from memory_retrievers import Message
from memory_retrievers.protocols import Segment

START = datetime(2026, 2, 1, 9, 0, tzinfo=UTC)

KAFKA = [
    "The nightly import into the warehouse failed again, third time this week.",
    "Which step of the import fails, the extraction or the load into the warehouse?",
    "The load step. The cron job times out when the export file is large.",
    "You could stream the export through Kafka instead of one large cron job.",
    "Would Kafka keep the order of the import rows in each partition?",
    "Yes, within a partition Kafka keeps the order, so key the rows by customer.",
]
GARDEN = [
    "My tomato plants in the garden get yellow leaves at the bottom.",
    "Yellow lower leaves on tomato plants often mean too much water in the soil.",
    "I water the garden every evening, the soil is always wet.",
    "Let the soil dry, then water the tomato plants only twice a week.",
    "Should I also put fertilizer into the soil for the plants?",
    "A little fertilizer with potassium helps the tomato plants to bear fruit.",
]
TRIP = [
    "We want to take the night train from Vienna to Venice in May.",
    "The night train from Vienna to Venice leaves at half past nine.",
    "Is there a sleeping car on the train, or only seats?",
    "There is a sleeping car with two beds, and couchettes are cheaper.",
    "Then book the sleeping car to Venice for the second weekend of May.",
    "The train tickets to Venice are reserved, two beds in the sleeping car.",
]
GUITAR = [
    "I started to learn the guitar, and my fingers hurt from the strings.",
    "Sore fingers are normal with steel strings; nylon guitar strings are softer.",
    "Which guitar chords should a beginner learn first?",
    "The chords G, C and D are enough to play hundreds of songs on the guitar.",
    "Changing from the C chord to the G chord is slow for my fingers.",
    "Practise that chord change for five minutes a day, without strumming the guitar.",
]
TOPICS = [KAFKA, GARDEN, TRIP, GUITAR]


def talk(*stretches: Sequence[str], pause: timedelta = timedelta(0), timed: bool = True) -> list[Message]:
    """The stretches one after the other, two speakers in turn, a minute apart, with a pause between stretches."""
    messages: list[Message] = []
    at = START
    for number, stretch in enumerate(stretches):
        at += pause if number else timedelta(0)
        for content in stretch:
            role = "assistant" if len(messages) % 2 else "user"
            messages.append(Message(role=role, content=content, timestamp=at if timed else None))
            at += timedelta(minutes=1)
    return messages


def borders_of(segments: Sequence[Segment]) -> list[int]:
    """The positions at which a segment other than the first begins."""
    positions: list[int] = []
    at = 0
    for segment in segments[:-1]:
        at += segment.messages
        positions.append(at)
    return positions
