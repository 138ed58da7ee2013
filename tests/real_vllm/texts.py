"""Prompts in several languages: made from word lists, the same for the same number, else different at once."""

import random
from collections.abc import Callable, Iterator

__all__ = ["LANGUAGES", "code", "english", "token_ids", "vietnamese"]

_SENTENCE = (
    ("The committee", "Our supplier", "A visitor", "The engineer", "Every farmer", "Her brother"),
    ("reviewed", "opened", "described", "measured", "postponed", "repaired", "delivered", "translated"),
    ("the northern bridge", "a quarterly report", "seven old maps", "the water supply", "the harbour"),
    ("before sunrise", "in late October", "after a long discussion", "without any help", "last Tuesday"),
)
_CAU = (
    ("Ban giám đốc", "Người nông dân", "Cô giáo trẻ", "Nhà máy dệt", "Các em học sinh", "Hợp tác xã"),
    ("đã xem xét", "vừa hoàn thành", "muốn giới thiệu", "đang sửa chữa", "sẽ chuyển giao", "thường nhắc đến"),
    ("cây cầu phía bắc", "bản báo cáo quý", "những tấm bản đồ cũ", "nguồn nước sạch", "bến cảng mới"),
    ("trước khi mặt trời mọc", "vào cuối tháng mười", "suốt mùa đông", "chiều thứ ba tuần trước"),
)
_VERBS = ("load", "merge", "split", "check", "count", "fetch", "render", "update")
_NOUNS = ("order", "invoice", "record", "session", "account", "payload", "widget", "region")


def english(number: int, size_bytes: int) -> str:
    """Prose of `size_bytes` bytes of UTF-8."""
    return _text(number, size_bytes, _prose(_SENTENCE))


def vietnamese(number: int, size_bytes: int) -> str:
    """Prose of about `size_bytes` bytes of UTF-8, many of them two or three a letter."""
    return _text(number, size_bytes, _prose(_CAU))


def code(number: int, size_bytes: int) -> str:
    """Python functions, `size_bytes` bytes of them."""
    return _text(number, size_bytes, _function)


def token_ids(number: int, count: int) -> list[int]:
    """Ids of the model's vocabulary, none of them special."""
    dice = random.Random(f"ids {number}")
    return [dice.randrange(3, 4096) for _ in range(count)]


LANGUAGES = {"english": english, "code": code, "vietnamese": vietnamese}


def _text(number: int, size_bytes: int, sentence: Callable[[random.Random], str]) -> str:
    """Sentences up to `size_bytes` bytes; a letter that would be cut in two is left out."""
    dice = random.Random(number)
    text = "".join(_until(size_bytes, dice, sentence))
    return text.encode()[:size_bytes].decode(errors="ignore")


def _until(size_bytes: int, dice: random.Random, sentence: Callable[[random.Random], str]) -> Iterator[str]:
    while size_bytes > 0:
        piece = sentence(dice)
        size_bytes -= len(piece.encode())
        yield piece


def _prose(columns: tuple[tuple[str, ...], ...]) -> Callable[[random.Random], str]:
    def sentence(dice: random.Random) -> str:
        words = " ".join(dice.choice(column) for column in columns)
        return f"{words} ({dice.randrange(10_000)}). "

    return sentence


def _function(dice: random.Random) -> str:
    verb, noun, other = dice.choice(_VERBS), dice.choice(_NOUNS), dice.choice(_NOUNS)
    limit = dice.randrange(10_000)
    return (
        f"def {verb}_{noun}_{limit}({noun}s, {other}=None):\n"
        f"    for index, {noun} in enumerate({noun}s):\n"
        f"        if index > {limit} or not {noun}.get('{other}'):\n"
        f"            raise ValueError('{noun} without {other}')\n"
        f"    return [{verb}({noun}, {other}) for {noun} in {noun}s]\n\n\n"
    )
