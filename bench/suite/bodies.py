"""Request bodies: prompts of a stated size in bytes that share a stated part, in several scripts.

Text is made of pseudo-random words and is the same in every run. Sixteen # stand where the shared part ends;
the load generator writes a number of its own there into every request.
"""

import json
import random
from dataclasses import dataclass
from functools import lru_cache

__all__ = ["HOLE", "Body", "bodies_file", "chat_body", "text_of"]

HOLE = "#" * 16
GROUPS = 32

WORDS = {
    "english": "the model serves requests with cached prefix blocks and tokens from previous turns of a "
    "conversation system prompt user asks about memory latency queue policy routing and why it took so long",
    "chinese": "模型 服务 请求 缓存 前缀 令牌 对话 系统 提示 用户 询问 内存 延迟 队列 策略 路由 "
    "为什么 这么 久 回答 端点 分块 命中 吞吐 调度 显存 主机 副本",
    "vietnamese": "mô hình phục vụ yêu cầu với tiền tố đã lưu trong bộ nhớ đệm và các từ của hội thoại "
    "trước đó người dùng hỏi về độ trễ hàng đợi chính sách định tuyến vì sao lâu đến vậy",
}
JOINTS = {"english": " ", "chinese": "", "vietnamese": " "}


@dataclass(frozen=True, slots=True)
class Body:
    """What a workload sends: about `size` bytes, of which the first `shared` part is one of `groups` texts.

    `escaped` writes everything but ASCII as \\uXXXX, as many clients do. `prompt` makes it a body of
    /v1/completions.
    """

    size: int
    script: str = "english"
    escaped: bool = False
    shared: float = 0.9
    stream: bool = False
    max_tokens: int = 64
    groups: int = GROUPS
    prompt: bool = False


def text_of(script: str, size: int, seed: int, *, escaped: bool) -> str:
    """Words of a script whose JSON form has about `size` bytes (never more, at most 64 less)."""
    rng = random.Random(f"{script}{seed}")
    words, joint = WORDS[script].split(), JOINTS[script]
    pieces, used = [], 0
    while True:
        piece = rng.choice(words) + (".\n" if rng.random() < 0.05 else joint)
        length = _json_bytes(piece, escaped=escaped)
        if used + length > size:
            return "".join(pieces)
        pieces.append(piece)
        used += length


@lru_cache(maxsize=4096)
def _json_bytes(text: str, *, escaped: bool) -> int:
    return len(json.dumps(text, ensure_ascii=escaped).encode()) - 2


def chat_body(body: Body, group: int) -> bytes:
    """One body as JSON in one line."""
    frame = len(_encode(_fields(body, "", ""), escaped=body.escaped))
    room = max(body.size - frame, 32)
    shared = text_of(body.script, int(room * body.shared), group, escaped=body.escaped)
    rest = text_of(body.script, int(room * (1 - body.shared)), -1 - group, escaped=body.escaped)
    return _encode(_fields(body, shared, rest), escaped=body.escaped)


def _fields(body: Body, shared: str, rest: str) -> dict[str, object]:
    question = f"Question {HOLE}: {rest}"
    options: dict[str, object] = {"max_tokens": body.max_tokens, "temperature": 0.7, "stream": body.stream}
    if body.stream:
        options["stream_options"] = {"include_usage": True}
    if body.prompt:
        return {"model": "m", "prompt": shared + question, **options}
    messages = [{"role": "system", "content": shared}, {"role": "user", "content": question}]
    return {"model": "m", "messages": messages, **options}


def _encode(fields: dict[str, object], *, escaped: bool) -> bytes:
    return json.dumps(fields, ensure_ascii=escaped, separators=(",", ":")).encode()


def bodies_file(body: Body) -> bytes:
    """What the load generator reads: a body a line."""
    return b"\n".join(chat_body(body, group) for group in range(body.groups)) + b"\n"
