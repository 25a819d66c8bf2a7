"""The scripted API over HTTP: replies, faults, errors, and the log of what was served."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tokenbench.clock import ManualClock
from tokenbench.errors import RehearsalError
from tokenbench.ledger.model import Tokens
from tokenbench.rehearsal.api import ScriptedApi
from tokenbench.rehearsal.scripts import (
    Answer,
    CellScript,
    Fault,
    JudgeRule,
    JudgeScript,
    Pace,
    ScriptBook,
    Step,
    Take,
    ToolCall,
)
from tokenbench.rehearsal.served import RunKey, Served, read_log

KEY = RunKey("cell", "native", "q1")
GREP = Step((ToolCall("Grep", {"pattern": "SIZE"}),), thinking="Search first.", thinking_tokens=50, text="I search.")
TOOLS = [{"name": "Grep", "description": "Search.", "input_schema": {"type": "object"}}]


def book(*faults: Fault, answer: str = "It is 256.") -> ScriptBook:
    return ScriptBook((CellScript("q1", Answer(answer, faults=faults), steps=(GREP,)),))


def body(*results: str, stream: bool = True, **fields: object) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Where is it?"}]
    messages += [
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": f"toolu_scripted_a_{at}_0", "content": text}],
        }
        for at, text in enumerate(results)
    ]
    return {
        "model": "claude-opus-5",
        "stream": stream,
        "thinking": {"type": "adaptive"},
        "tools": TOOLS,
        "messages": messages,
        **fields,
    }


def events(text: str) -> list[dict[str, Any]]:
    return [json.loads(line.removeprefix("data: ")) for line in text.splitlines() if line.startswith("data: ")]


class Client:
    """An HTTP client of one API; the lines of its log come in as they are written."""

    def __init__(
        self,
        api: ScriptedApi,
        log: Path,
        session: aiohttp.ClientSession,
        clock: ManualClock,
        heard: "asyncio.Queue[Served]",
    ) -> None:
        self.api, self.log, self.session, self.clock, self.heard = api, log, session, clock, heard

    def open(self, key: RunKey = KEY, tools: tuple[str, ...] = ("Grep",)) -> str:
        return self.api.open_run(key, tools=tools, folder="/corpus")

    async def post(self, url: str, data: object, path: str = "/v1/messages?beta=true") -> tuple[int, str]:
        async with self.session.post(url + path, data=data if isinstance(data, bytes) else json.dumps(data)) as reply:
            return reply.status, await reply.text()

    def served(self) -> tuple[Served, ...]:
        return read_log(self.log)

    async def logged(self) -> Served:
        """The next line of the log, once it is written."""
        return await self.heard.get()


Serve = Callable[..., Awaitable[Client]]


@pytest.fixture
async def serve(tmp_path: Path) -> AsyncIterator[Serve]:
    running: list[tuple[ScriptedApi, aiohttp.ClientSession]] = []

    async def start(scripts: ScriptBook, **options: Any) -> Client:
        clock = ManualClock(1_000.0)
        heard: asyncio.Queue[Served] = asyncio.Queue()
        log = tmp_path / "rehearsal.jsonl"
        api = ScriptedApi(scripts, clock=clock, log=log, minimum_prefix=0, on_served=heard.put_nowait, **options)
        await api.start()
        session = aiohttp.ClientSession()
        running.append((api, session))
        return Client(api, log, session, clock, heard)

    yield start
    for api, session in running:
        await session.close()
        await api.stop()


async def test_a_streamed_reply_has_thinking_text_and_tool_call_and_usage_at_both_ends(serve: Serve) -> None:
    client = await serve(book())
    status, text = await client.post(client.open(), body())
    sent = events(text)
    starts = [event["content_block"] for event in sent if event["type"] == "content_block_start"]
    deltas = [event["delta"] for event in sent if event["type"] == "content_block_delta"]
    first, last = sent[0]["message"], sent[-2]

    assert status == 200
    assert [block["type"] for block in starts] == ["thinking", "text", "tool_use"]
    assert "".join(delta.get("thinking", "") for delta in deltas) == "Search first."
    assert "".join(delta.get("text", "") for delta in deltas) == "I search."
    assert json.loads("".join(delta.get("partial_json", "") for delta in deltas)) == {"pattern": "SIZE"}
    assert starts[2]["id"].startswith("toolu_scripted_")
    assert (first["model"], first["usage"]["output_tokens"]) == ("claude-opus-5", 1)
    assert last["delta"]["stop_reason"] == "tool_use"
    assert sent[-1]["type"] == "message_stop"

    (line,) = client.served()
    assert first["id"] == line.reply_id
    assert line.reply_id.startswith("msg_scripted_")
    assert last["usage"]["output_tokens"] == line.usage.output == sum(block.tokens for block in line.reply)
    assert last["usage"]["input_tokens"] == line.usage.input == sum(block.tokens for block in line.prompt)
    assert last["usage"]["output_tokens_details"] == {"thinking_tokens": line.thinking}
    assert line.thinking > 50
    assert (line.run, line.step, line.played, line.completed) == (KEY, 0, "script", True)
    assert (line.t, line.path, line.rule) == (1_000.0, "/v1/messages", "pieces-1")


async def test_a_request_that_wants_no_stream_gets_the_same_as_one_message(serve: Serve) -> None:
    client = await serve(book())
    url = client.open()
    _, streamed = await client.post(url, body())
    _, text = await client.post(url, body(stream=False))
    message = json.loads(text)
    usage = events(streamed)[-2]["usage"]

    assert [block["type"] for block in message["content"]] == ["thinking", "text", "tool_use"]
    assert message["content"][2]["input"] == {"pattern": "SIZE"}
    assert message["stop_reason"] == "tool_use"
    assert message["usage"] == usage


async def test_without_leave_to_think_no_thinking_is_sent_or_billed(serve: Serve) -> None:
    client = await serve(book())
    _, text = await client.post(client.open(), body(stream=False, thinking={"type": "disabled"}))
    assert [block["type"] for block in json.loads(text)["content"]] == ["text", "tool_use"]
    assert client.served()[0].thinking == 0


async def test_each_result_in_the_prompt_is_logged_with_its_call_and_its_price(serve: Serve) -> None:
    client = await serve(book())
    _, text = await client.post(client.open(), body("src/a.py:3: SIZE = 256"))
    assert "It is 256." in "".join(event["delta"]["text"] for event in events(text) if "text" in event.get("delta", {}))
    result = client.served()[0].prompt[-1]
    assert (result.kind, result.tool_use_id, result.cache) == ("tool_result", "toolu_scripted_a_0_0", "fresh")


async def test_message_ids_are_never_the_same(serve: Serve) -> None:
    client = await serve(book())
    url = client.open()
    for _ in range(5):
        await client.post(url, body())
    assert len({line.reply_id for line in client.served()}) == 5


async def test_the_cache_is_shared_by_runs_and_lives_on_the_given_clock(serve: Serve) -> None:
    client = await serve(book())
    marked = body(system=[{"type": "text", "text": "Be concise.", "cache_control": {"type": "ephemeral"}}])
    await client.post(client.open(), marked)
    await client.post(client.open(), marked)
    client.clock.advance(301)
    await client.post(client.open(), marked)
    first, second, third = (line.usage for line in client.served())

    assert first.cache_write_5m == second.cache_read > 0
    assert first.cache_read == second.cache_write_5m == third.cache_read == 0
    assert [block.cache for block in client.served()[1].prompt] == ["read", "read", "fresh"]


async def test_tokens_can_be_counted_without_a_reply(serve: Serve) -> None:
    client = await serve(book())
    url = client.open()
    status, text = await client.post(url, body(), "/v1/messages/count_tokens")
    await client.post(url, body())
    counted, served = client.served()

    assert (status, json.loads(text)) == (200, {"input_tokens": served.usage.billed_input})
    assert (counted.played, counted.usage) == ("count", Tokens())


@pytest.mark.parametrize(
    ("status", "kind"), [("429", "rate_limit_error"), ("500", "api_error"), ("529", "overloaded_error")]
)
async def test_an_http_fault_happens_so_often_and_costs_nothing(serve: Serve, status: str, kind: str) -> None:
    client = await serve(book(Fault(status, times=2, retry_after=7)))
    url = client.open()
    replies = [await client.post(url, body("found")) for _ in range(3)]

    assert [code for code, _ in replies] == [int(status), int(status), 200]
    assert json.loads(replies[0][1])["error"]["type"] == kind
    assert [line.usage.total > 0 for line in client.served()] == [False, False, True]
    assert [line.fault for line in client.served()] == [status, status, ""]


async def test_a_failed_request_leaves_nothing_in_the_cache(serve: Serve) -> None:
    client = await serve(book(Fault("529")))
    marked = body("found", system=[{"type": "text", "text": "Be concise.", "cache_control": {"type": "ephemeral"}}])
    url = client.open()
    await client.post(url, marked)
    await client.post(url, marked)
    assert client.served()[1].usage.cache_read == 0


async def test_faults_follow_each_other_and_can_be_kept_to_an_attempt(serve: Serve) -> None:
    client = await serve(book(Fault("429", attempts=(2,)), Fault("500"), Fault("529", times="always", attempts=(1,))))
    first, second = client.open(), client.open(RunKey("cell", "native", "q1", attempt=2))
    assert [(await client.post(first, body("x")))[0] for _ in range(3)] == [500, 529, 529]
    assert [(await client.post(second, body("x")))[0] for _ in range(3)] == [429, 500, 200]


async def test_an_http_error_says_when_to_come_back(serve: Serve) -> None:
    client = await serve(book(Fault("429", retry_after=7)))
    async with client.session.post(client.open() + "/v1/messages", json=body("x")) as reply:
        assert reply.headers["retry-after"] == "7"


OPENED = ["message_start", "ping", "content_block_start"]


@pytest.mark.parametrize(
    ("after", "sent", "output"),
    [
        ("nothing", [], 0),
        ("start", ["message_start"], 1),
        ("block", [*OPENED, *["content_block_delta"] * 2], 6),
        ("blocks", [*OPENED, *["content_block_delta"] * 3, "content_block_stop"], 6),
        ("usage", [*OPENED, *["content_block_delta"] * 3, "content_block_stop", "message_delta"], 6),
    ],
)
async def test_a_stream_breaks_where_the_script_says_and_bills_what_was_begun(
    serve: Serve, after: Any, sent: list[str], output: int
) -> None:
    client = await serve(book(Fault("broken", after=after), answer="Answer 256."))
    received = await read_until_it_breaks(client, body("x"))
    line = await client.logged()

    assert [event["type"] for event in events(received)] == sent
    assert (line.usage.output, line.completed, line.fault) == (output, False, "broken")
    assert (line.usage.billed_input > 0) is (after != "nothing")


@pytest.mark.parametrize("fault", ["error", "ended"])
@pytest.mark.parametrize(("after", "sent"), [("nothing", []), ("start", ["message_start"])])
async def test_a_stream_can_end_early_with_an_error_event_or_as_if_it_were_complete(
    serve: Serve, fault: Any, after: Any, sent: list[str]
) -> None:
    client = await serve(book(Fault(fault, after=after), answer="Answer 256."))
    async with client.session.post(client.open() + "/v1/messages", json=body("x")) as reply:
        received = await reply.text()
    line = await client.logged()

    assert [event["type"] for event in events(received)] == [*sent, *(["error"] if fault == "error" else [])]
    assert (line.completed, line.fault, line.usage.billed_input > 0) == (False, fault, bool(sent))


async def read_until_it_breaks(client: Client, data: object) -> str:
    received = b""
    try:
        async with client.session.post(client.open() + "/v1/messages", json=data) as reply:
            async for chunk in reply.content.iter_any():
                received += chunk
    except aiohttp.ClientError:
        return received.decode()
    raise AssertionError("the stream came to its end")


async def test_a_hang_lasts_for_its_seconds_of_the_clock_and_the_reply_goes_on(serve: Serve) -> None:
    client = await serve(book(Fault("hang", after="block", seconds=90)))
    status, text = await client.post(client.open(), body("x"))
    assert status == 200
    assert events(text)[-1]["type"] == "message_stop"
    assert client.clock.now() == 1_090


async def test_a_pace_delays_the_replies_of_cells_alone(serve: Serve) -> None:
    client = await serve(ScriptBook(pace=Pace(seconds=0.5)))
    await client.post(client.open(), body())
    assert client.clock.now() == 1_000.5
    await client.post(client.open(RunKey("judge", "anna", "q1"), tools=()), body(tools=[]))
    assert client.clock.now() == 1_000.5


@pytest.mark.parametrize("after", ["nothing", "start"])
async def test_a_hang_without_end_ends_when_the_agent_gives_up(serve: Serve, after: Any) -> None:
    client = await serve(book(Fault("hang", after=after)))
    with pytest.raises(asyncio.TimeoutError):
        async with client.session.post(
            client.open() + "/v1/messages", json=body("x"), timeout=aiohttp.ClientTimeout(total=0.2)
        ) as reply:
            await reply.read()
    line = await client.logged()
    assert (line.client_left, line.completed, line.fault) == (True, False, "hang")


async def test_a_hang_without_end_does_not_keep_the_server_from_stopping(serve: Serve) -> None:
    client = await serve(book(Fault("hang", after="start")))
    request = client.session.post(client.open() + "/v1/messages", json=body("x"))
    async with request as reply:
        await reply.content.readany()
        await asyncio.wait_for(client.api.stop(), 5)
        with pytest.raises(aiohttp.ClientError):
            await reply.read()
    line = await client.logged()
    assert (line.client_left, line.completed) == (False, False)


async def test_an_agent_that_leaves_in_mid_stream_is_billed_what_was_begun(serve: Serve) -> None:
    client = await serve(book(Fault("hang", after="start")))
    async with client.session.post(client.open() + "/v1/messages", json=body("x")) as reply:
        await reply.content.readany()
        reply.close()
    line = await client.logged()
    assert line.client_left
    assert (line.usage.output, line.reply) == (1, ())


async def test_another_conversation_of_the_same_run_gets_a_plain_answer(serve: Serve) -> None:
    client = await serve(book())
    url = client.open()
    await client.post(url, body())
    _, other = await client.post(url, body(messages=[{"role": "user", "content": "You are a subagent."}], stream=False))
    _, title = await client.post(url, body(tools=[], stream=False))

    assert [json.loads(text)["content"][0]["text"] for text in (other, title)] == ["rehearsal", "rehearsal"]
    assert [line.played for line in client.served()] == ["script", "side", "side"]


async def test_a_conversation_that_is_compacted_goes_on_where_the_script_stood(serve: Serve) -> None:
    first = Step((ToolCall("Grep", {"pattern": "SIZE"}, "search"),))
    second = Step((ToolCall("Grep", {"pattern": "{path}"}),), faults=(Fault("too_long"),))
    take = Take("search", "(?P<path>[^:]+):")
    script = CellScript("q1", "It is in {path}.", steps=(first, second), take=(take,), summary="We searched.")
    client = await serve(ScriptBook((script,)))
    url = client.open()
    await client.post(url, body())
    status, refused = await client.post(url, body("a.java:7: SIZE"))
    asks = {"role": "user", "content": "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.\n\nSum it up."}
    _, summed = await client.post(url, body(stream=False, messages=[*body("a.java:7: SIZE")["messages"], asks]))
    opening = "This session is being continued from a previous conversation that ran out of context. We searched."
    _, goes_on = await client.post(url, body(stream=False, messages=[{"role": "user", "content": opening}]))

    assert (status, json.loads(refused)["error"]["message"][:18]) == (400, "prompt is too long")
    assert "<summary>We searched.</summary>" in json.loads(summed)["content"][0]["text"]
    assert json.loads(goes_on)["content"][-1]["input"] == {"pattern": "a.java"}
    assert [line.played for line in client.served()] == ["script", "script", "summary", "script"]


async def test_a_summary_that_nobody_asked_for_is_another_conversation(serve: Serve) -> None:
    client = await serve(book())
    url = client.open()
    await client.post(url, body())
    opening = {"role": "user", "content": "This session is being continued from a previous conversation."}
    await client.post(url, body(messages=[opening]))

    assert [line.played for line in client.served()] == ["script", "side"]


async def test_a_judge_ends_with_the_verdict_of_its_rule(serve: Serve) -> None:
    scripts = ScriptBook(judges=(JudgeScript("q1", (JudgeRule("256", "correct"),), "wrong"),))
    client = await serve(scripts)
    url = client.open(RunKey("judge", "anna", "q1"), tools=())
    prompt = "Judge.\n<answer>\nIt is 256.\n</answer>"
    _, text = await client.post(url, body(messages=[{"role": "user", "content": prompt}], tools=[], stream=False))
    assert json.loads(json.loads(text)["content"][0]["text"].splitlines()[-1]) == {"verdict": "correct"}
    assert client.served()[0].played == "judge"


async def test_runs_at_once_do_not_hear_each_other(serve: Serve) -> None:
    scripts = ScriptBook(tuple(CellScript(f"q{number}", f"answer {number}") for number in range(12)))
    client = await serve(scripts)

    async def ask(number: int) -> str:
        url = client.open(RunKey("cell", "native", f"q{number}"))
        _, text = await client.post(url, body(stream=False))
        return json.loads(text)["content"][0]["text"]

    assert await asyncio.gather(*map(ask, range(12))) == [f"answer {number}" for number in range(12)]


@pytest.mark.parametrize(
    ("method", "path", "status", "kind"),
    [
        ("POST", "/v1/complete", 404, "not_found_error"),
        ("GET", "/", 404, "not_found_error"),
        ("GET", "/v1/messages", 405, "invalid_request_error"),
    ],
)
async def test_what_the_api_does_not_have_is_an_error_in_its_form(
    serve: Serve, method: str, path: str, status: int, kind: str
) -> None:
    client = await serve(book())
    async with client.session.request(method, client.open() + path) as reply:
        assert reply.status == status
        error = await reply.json()
    assert (error["type"], error["error"]["type"]) == ("error", kind)
    assert [(line.status, line.path, line.run) for line in client.served()] == [(status, path, KEY)]


async def test_an_address_that_was_not_given_out_or_is_closed_is_a_404_and_logged(serve: Serve) -> None:
    client = await serve(book())
    closed = client.open()
    client.api.close_run(closed)
    client.api.close_run(closed)
    for url in (client.api.url, client.api.url + "/run/0123456789abcdef", closed):
        status, text = await client.post(url, body())
        assert (status, json.loads(text)["error"]["type"]) == (404, "not_found_error")
    assert [(line.status, line.run, line.usage) for line in client.served()] == [(404, None, Tokens())] * 3


def test_addresses_cannot_be_guessed(tmp_path: Path) -> None:
    async def addresses() -> set[str]:
        async with ScriptedApi(ScriptBook(), clock=ManualClock()) as api:
            return {api.open_run(KEY, tools=(), folder=tmp_path).rsplit("/", 1)[1] for _ in range(20)}

    tokens = asyncio.run(addresses())
    assert len(tokens) == 20
    assert {len(token) for token in tokens} == {24}


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xfe\x00", b"[]", b'{"model": "m", "messages": 3}'])
async def test_a_malformed_request_is_told_so_and_logged(serve: Serve, data: bytes) -> None:
    client = await serve(book())
    status, text = await client.post(client.open(), data)
    assert (status, json.loads(text)["error"]["type"]) == (400, "invalid_request_error")
    assert client.served()[0].error


async def test_too_many_breakpoints_are_rejected_as_the_api_does(serve: Serve) -> None:
    client = await serve(book())
    block = {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}
    status, text = await client.post(client.open(), body(system=[block] * 5))
    assert status == 400
    assert "maximum of 4" in json.loads(text)["error"]["message"]


async def test_a_request_larger_than_the_limit_is_refused(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tokenbench.rehearsal.api.LARGEST_REQUEST", 1_000)
    client = await serve(book())
    status, _ = await client.post(client.open(), body("x" * 2_000))
    assert (status, client.served()[0].status) == (413, 413)


async def test_a_port_in_use_is_told_with_what_to_do() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(RehearsalError, match=f"127.0.0.1:{port}: the port is in use. Choose another"):
            await ScriptedApi(ScriptBook(), clock=ManualClock(), port=port).start()


async def test_a_port_that_does_not_exist_is_told() -> None:
    with pytest.raises(RehearsalError, match="cannot listen"):
        await ScriptedApi(ScriptBook(), clock=ManualClock(), port=70_000).start()


async def test_where_the_log_cannot_be_written_nothing_more_is_served(tmp_path: Path) -> None:
    async with (
        ScriptedApi(book(), clock=ManualClock(), log=tmp_path / "none" / "rehearsal.jsonl") as api,
        aiohttp.ClientSession() as session,
    ):
        url = api.open_run(KEY, tools=("Grep",), folder="/corpus")
        statuses = []
        for _ in range(2):
            async with session.post(url + "/v1/messages", json=body()) as reply:
                await reply.read()
                statuses.append(reply.status)
    assert statuses == [200, 500]
    assert api.failure is not None
    assert "append" in api.failure.what


async def test_another_counter_can_be_put_in(serve: Serve) -> None:
    class Words:
        rule_name = "words"

        def text(self, text: str) -> int:
            return len(text.split())

    client = await serve(book(), counter=Words())
    await client.post(client.open(), body("one two three"))
    (line,) = client.served()
    assert (line.rule, line.prompt[-1].tokens) == ("words", 6)


async def test_a_listener_hears_each_line(serve: Serve) -> None:
    client = await serve(book())
    await client.post(client.open(), body())
    assert (await client.logged(),) == client.served()


def test_a_torn_last_line_of_the_log_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "rehearsal.jsonl"
    path.write_text('{"t": 1, "path": "/", "status": 404}\n{"t": 2, "pa')
    assert [line.t for line in read_log(path)] == [1]
