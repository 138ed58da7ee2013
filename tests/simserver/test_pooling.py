"""The routes of the simulated server whose answers are numbers."""

import base64
from array import array

import pytest

CHAT = [{"role": "user", "content": "hello"}]


@pytest.fixture
async def client(launch, connect):
    return await connect(await launch())


async def post(client, path, **body):
    return (await client.post(path, json={"model": "sim/llama-8b", **body})).json()


async def test_embeddings_of_several_texts_are_told_apart_and_repeatable(client):
    answer = await post(client, "/v1/embeddings", input=["a", "b", "a"])
    first, second, third = (row["embedding"] for row in answer["data"])

    assert answer["id"].startswith("embd-")
    assert [(row["index"], row["object"]) for row in answer["data"]] == [(n, "embedding") for n in range(3)]
    assert len(first) == 64
    assert first == third != second
    assert answer["usage"]["prompt_tokens"] == answer["usage"]["total_tokens"] > 0


async def test_embeddings_in_base64_are_the_same_numbers(client):
    [plain] = (await post(client, "/v1/embeddings", input="a", dimensions=8))["data"]
    [coded] = (await post(client, "/v1/embeddings", input="a", dimensions=8, encoding_format="base64"))[
        "data"
    ]

    assert array("f", base64.b64decode(coded["embedding"])).tolist() == pytest.approx(plain["embedding"])


@pytest.mark.parametrize(
    "given",
    [
        {"input": [1, 2, 3]},
        {"input": [[1, 2], [3]]},
        {
            "input": [
                {"type": "text", "text": "a"},
                {"type": "image_url", "image_url": {"url": "http://x/i.png"}},
            ]
        },
        {"messages": CHAT},
    ],
)
async def test_every_form_of_input_is_taken(client, given):
    assert (await post(client, "/v1/embeddings", **given))["object"] == "list"


async def test_a_prompt_that_is_embedded_again_is_found_in_the_cache(launch, connect):
    server = await launch()
    client = await connect(server)
    for _ in range(2):
        await post(client, "/v1/embeddings", input="The quick brown fox jumps. " * 40)

    assert server.core.engine.counters.prompt_gpu_hit > 100


async def test_pooling_gives_numbers(client):
    answer = await post(client, "/pooling", input="a")
    assert answer["id"].startswith("pooling-")
    assert [(row["object"], len(row["data"])) for row in answer["data"]] == [("pooling", 64)]


async def test_classes_have_probabilities_that_add_up(client):
    [row] = (await post(client, "/classify", input="a"))["data"]
    assert row["num_classes"] == 2
    assert sum(row["probs"]) == pytest.approx(1.0)
    assert row["label"] == f"LABEL_{row['probs'].index(max(row['probs']))}"


@pytest.mark.parametrize("path", ["/score", "/v1/score"])
@pytest.mark.parametrize(
    "pairs",
    [
        {"text_1": "q", "text_2": ["a", "b"]},
        {"queries": "q", "documents": ["a", "b"]},
        {"data_1": ["q", "q"], "data_2": ["a", "b"]},
    ],
)
async def test_every_pair_gets_a_score(client, path, pairs):
    answer = await post(client, path, **pairs)
    assert [row["object"] for row in answer["data"]] == ["score", "score"]
    assert all(0.0 <= row["score"] <= 1.0 for row in answer["data"])


async def test_lists_of_different_lengths_are_refused(client):
    answer = await client.post("/score", json={"text_1": ["a", "b"], "text_2": ["c", "d", "e"]})
    assert answer.status_code == 400


async def test_a_score_without_texts_is_refused(client):
    assert (await client.post("/score", json={"text_2": ["a"]})).status_code == 400


@pytest.mark.parametrize("path", ["/rerank", "/v1/rerank", "/v2/rerank"])
async def test_documents_are_ranked_best_first(client, path):
    documents = ["a", "b", "c", "d"]
    answer = await post(client, path, query="q", documents=documents)
    best = await post(client, path, query="q", documents=documents, top_n=1)
    scores = [row["relevance_score"] for row in answer["results"]]

    assert set(answer) == {"id", "model", "results", "usage"}
    assert set(answer["usage"]) == {"prompt_tokens", "total_tokens"}
    assert scores == sorted(scores, reverse=True)
    assert all(row["document"]["text"] == documents[row["index"]] for row in answer["results"])
    assert best["results"] == answer["results"][:1]
