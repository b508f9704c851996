"""Follows runs as any NATS client would: subscribe, check, fill a gap with tail, and find every other door shut.

Called by subscriber.rs with the program's path, in a directory where `coppice up --with-desk` runs.
"""

import asyncio
import json
import subprocess
import sys

import nats
from nats.errors import NoRespondersError, TimeoutError

COPPICE = sys.argv[1]
EVENTS = "coppice.v1.local.event.default"
WAIT = 30


def coppice(*arguments):
    done = subprocess.run([COPPICE, *arguments], capture_output=True, text=True, check=True)
    return done.stdout


async def submit(request):
    given = json.dumps({"request_id": request, "incidents": ["incident_104", "incident_119"]})
    said = await asyncio.to_thread(coppice, "submit", "incident-comparison", "--input", given, "--wait", "--json")
    return json.loads(said)["started"]["tree"]


def recorded(tree, *more):
    return [json.loads(line) for line in coppice("events", "--tree", tree, "--json", *more).splitlines()]


async def collect(subscription, tree, until_root_ends=True, at_most=None):
    """Messages of one tree until its root has ended, or so many."""
    seen = []
    while at_most is None or len(seen) < at_most:
        message = await subscription.next_msg(timeout=WAIT)
        event = json.loads(message.data)
        if event["tree"] != tree:
            continue
        assert message.subject == f"{EVENTS}.{event['tree']}.{event['run']}.{event['kind']}", message.subject
        assert message.headers["Coppice-Pos"] == str(event["pos"])
        assert message.headers["Coppice-Seq"] == str(event["seq"])
        seen.append(event)
        if until_root_ends and event["kind"] == "run.ended" and event["run"] == tree:
            break
    return seen


def in_order(events):
    """(run, seq) is without gaps for who takes all kinds of a run."""
    last = {}
    for event in events:
        assert event["seq"] == last.get(event["run"], 0) + 1, event
        last[event["run"]] = event["seq"]


async def tail(client, start, **filters):
    """Pages of recorded events from a position on."""
    events = []
    while True:
        request = json.dumps({"from": start, "filter": filters}).encode()
        reply = await client.request("coppice.v1.local.api.default.tail", request, timeout=WAIT)
        page = json.loads(reply.data)
        assert "error" not in page, page
        events += page["events"]
        if page["end"]:
            return events
        start = page["next"]


async def sees_everything(client):
    everything = await client.subscribe(f"{EVENTS}.>")
    effects = await client.subscribe(f"{EVENTS}.*.*.effect.*")
    await client.flush()
    tree = await submit("r-1")
    seen = await collect(everything, tree)
    assert seen == recorded(tree), "the feed is what is recorded"
    in_order(seen)
    wanted = [event for event in seen if event["kind"].startswith("effect.")]
    assert wanted, "the run has effects"
    filtered = await collect(effects, tree, until_root_ends=False, at_most=len(wanted))
    assert filtered == wanted, "a filter by kind is a subject"
    await everything.unsubscribe()
    await effects.unsubscribe()


async def fills_a_gap(client):
    subscription = await client.subscribe(f"{EVENTS}.>")
    await client.flush()
    started = asyncio.create_task(submit("r-2"))
    first = await subscription.next_msg(timeout=WAIT)
    before = json.loads(first.data)
    await subscription.unsubscribe()
    tree = await started
    assert before["tree"] == tree
    missed = await tail(client, before["pos"], tree=tree)
    known = (before["run"], before["seq"])
    together = [before] + [event for event in missed if (event["run"], event["seq"]) != known]
    assert together == recorded(tree), "what was missed is had with tail"
    effects = await tail(client, 0, tree=tree, kind="effect.*")
    assert effects == recorded(tree, "--kind", "effect.*")


async def refused(client, refusals, before):
    """The server refuses before it answers a flush; the client says so a moment later."""
    for _ in range(200):
        await client.flush()
        if len(refusals) > before:
            return True
    return False


async def may_do_nothing_else(client, refusals):
    async def shut(subject):
        try:
            await client.request(subject, b"{}", timeout=1)
        except (TimeoutError, NoRespondersError):
            return
        raise AssertionError(f"a watcher is answered on {subject}")

    for subject in [
        "$JS.API.INFO",
        "$JS.API.STREAM.INFO.COPPICE_local",
        "$JS.API.STREAM.PURGE.COPPICE_local",
        "$SRV.INFO",
        "coppice.v1.local.api.default.start",
        "coppice.v1.local.api.default.status",
        "coppice.v1.local.commit.default",
    ]:
        before = len(refusals)
        await shut(subject)
        assert await refused(client, refusals, before), f"publishing to {subject} is not refused"
    before = len(refusals)
    await client.subscribe("coppice.v1.local.commit.>")
    assert await refused(client, refusals, before), "commits can be heard"


async def main():
    env = json.loads(coppice("env", "--json"))
    refusals = []

    async def refused(error):
        refusals.append(str(error))

    client = await nats.connect(env["NATS_URL"], error_cb=refused)
    await sees_everything(client)
    await fills_a_gap(client)
    assert not refusals, refusals
    await may_do_nothing_else(client, refusals)
    await client.close()
    print("all seen")


asyncio.run(main())
