"""What every store does: the same suite over memory and SQLite, and both in step by chance."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from outlive.store.api import Commit, Due, Expect, Item, Key, Record, Store, StoreFault
from outlive.store.memory import MemoryStore
from outlive.store.open import open_store

MAKERS = {
    "memory": lambda _folder: open_store("memory:"),
    "sqlite": lambda folder: open_store(f"sqlite:///{folder}/outlive.db"),
}


@contextlib.contextmanager
def opened(name: str, folder: Path):
    """A store, and a function that runs what it is asked for to its end."""
    store = MAKERS[name](folder)
    with asyncio.Runner() as runner:
        runner.run(store.open())
        try:
            yield store, runner.run
        finally:
            runner.run(store.close())


@pytest.fixture(params=MAKERS)
def both(request, tmp_path):
    with opened(request.param, tmp_path) as pair:
        yield pair


def run_record(key: str, version: int = 1, body: bytes = b"", **more) -> Record:
    return Record("run", key, version, body, **more)


def plain(record: Record | None) -> Record | None:
    """Without the number, which is the store's own."""
    return None if record is None else record._replace(number=0)


def put(*records: Record, expect: tuple[Expect, ...] = ()) -> Commit:
    return Commit(expect=expect, put=records)


# --- compare and swap ---------------------------------------------------------------------------


def test_a_record_comes_back_as_it_was_put(both):
    store, run = both
    whole = Record("run", "a", 3, b"\0\xff", 1_700_000_000_000, "queued")
    assert run(store.apply([put(whole)])) == [True]
    there, missing = run(store.load([Key("run", "a"), Key("run", "b")]))
    assert plain(there) == whole
    assert there.number > 0
    assert type(there.body) is bytes
    assert missing is None


def test_records_are_loaded_in_the_order_asked_for_and_as_often(both):
    store, run = both
    run(store.apply([put(run_record("a"), run_record("b"))]))
    keys = [Key("run", key) for key in ("b", "x", "a", "b")]
    found = run(store.load(keys))
    assert [record and record.key for record in found] == ["b", None, "a", "b"]
    assert run(store.load([])) == []


@pytest.mark.parametrize(
    "key", ["", "\0", "a\0b", "ä", "\U0001d54f", "'; DROP TABLE records; --", "x" * 4000]
)
def test_any_text_is_a_key(both, key):
    store, run = both
    run(store.apply([put(run_record(key, body=b"mine", tag=key), run_record("a", tag="other"))]))
    (there,) = run(store.load([Key("run", key)]))
    assert (there.key, there.body, there.tag) == (key, b"mine", key)
    assert [record.key for record in run(store.page("run", key, 0, 10))] == [key]


def test_keys_of_two_kinds_and_of_two_cases_are_apart(both):
    store, run = both
    run(store.apply([put(run_record("a"), Record("wait", "a", 7, b"w"), run_record("A", 5))]))
    found = run(store.load([Key("run", "a"), Key("wait", "a"), Key("run", "A")]))
    assert [record.version for record in found] == [1, 7, 5]


@pytest.mark.parametrize(("there", "expected"), [(0, 1), (1, 0), (1, 2), (2, 1)])
def test_a_commit_decided_about_another_version_is_refused(both, there, expected):
    store, run = both
    if there:
        run(store.apply([put(run_record("a", there, b"old"))]))
    before = run(store.load([Key("run", "a")]))
    stale = put(run_record("a", expected + 1, b"new"), expect=(Expect("run", "a", expected),))
    assert run(store.apply([stale])) == [False]
    assert run(store.load([Key("run", "a")])) == before


def test_of_two_commits_about_one_version_the_first_is_made(both):
    store, run = both
    expect = (Expect("run", "a", 0),)
    rivals = [put(run_record("a", 1, who), expect=expect) for who in (b"first", b"second")]
    assert run(store.apply(rivals)) == [True, False]
    assert run(store.load([Key("run", "a")]))[0].body == b"first"


def test_a_commit_sees_what_the_one_before_it_in_the_batch_did(both):
    store, run = both
    chain = [
        put(run_record("a", n + 1, b"%d" % n), expect=(Expect("run", "a", n),)) for n in range(50)
    ]
    assert run(store.apply(chain)) == [True] * 50
    assert run(store.load([Key("run", "a")]))[0].version == 50


def test_a_dropped_record_is_not_there_and_may_be_made_again(both):
    store, run = both
    run(store.apply([put(run_record("a", 4, due_ms=1, tag="t"))]))
    drop = Commit(expect=(Expect("run", "a", 4),), drop=(Key("run", "a"),))
    assert run(store.apply([drop, drop])) == [True, False]
    assert run(store.load([Key("run", "a")])) == [None]
    assert run(store.next_due()) is None
    assert run(store.page("run", "t", 0, 10)) == []
    again = put(run_record("a"), expect=(Expect("run", "a", 0),))
    assert run(store.apply([again])) == [True]


def test_dropping_what_is_not_there_is_nothing(both):
    store, run = both
    assert run(store.apply([Commit(drop=(Key("run", "a"),)), Commit()])) == [True, True]


def test_a_commit_puts_before_it_drops_and_the_last_put_counts(both):
    store, run = both
    twice = put(run_record("a", 1, due_ms=5), run_record("a", 2, b"last", due_ms=6))
    gone = Commit(put=(run_record("b"),), drop=(Key("run", "b"),))
    assert run(store.apply([twice, gone])) == [True, True]
    a, b = run(store.load([Key("run", "a"), Key("run", "b")]))
    assert (a.version, a.body, b) == (2, b"last", None)
    assert run(store.due(10, 10)) == [Due(6, "run", "a")]


# --- all or nothing -----------------------------------------------------------------------------

REFUSED = {
    "one of two versions": Commit(
        expect=(Expect("run", "a", 1), Expect("run", "b", 1)),
        put=(run_record("a", 2, b"spoilt", due_ms=1), run_record("new", due_ms=2)),
        drop=(Key("run", "c"),),
        append=(Item(9, 0, b"spoilt"),),
    ),
    "an entry that is there": Commit(
        put=(run_record("a", 2, b"spoilt", due_ms=1), run_record("new", due_ms=2)),
        drop=(Key("run", "c"),),
        append=(Item(9, 0, b"spoilt"), Item(1, 0, b"spoilt"), Item(9, 1, b"spoilt")),
    ),
    "two entries of one seq": Commit(
        put=(run_record("a", 2, b"spoilt", due_ms=1),),
        drop=(Key("run", "c"),),
        append=(Item(9, 0, b"spoilt"), Item(9, 0, b"spoilt")),
    ),
    "nothing but an entry that is there": Commit(append=(Item(1, 0, b"spoilt"),)),
}


def everything(store: Store, run) -> tuple:
    """All that a store answers of what these tests put into it."""
    return (
        run(store.load([Key("run", key) for key in ("a", "b", "c", "new", "x", "y")])),
        [run(store.entries(no)) for no in (1, 9)],
        run(store.due(1 << 62, 100)),
        run(store.next_due()),
        run(store.page("run", None, 0, 100)),
    )


@pytest.mark.parametrize("refused", REFUSED.values(), ids=REFUSED)
def test_a_refused_commit_changes_nothing(both, refused):
    store, run = both
    run(store.apply([put(run_record("a"), run_record("c", due_ms=3))]))
    run(store.apply([Commit(append=(Item(1, 0, b"input"),))]))
    before = everything(store, run)
    assert run(store.apply([refused])) == [False]
    assert everything(store, run) == before


@pytest.mark.parametrize("refused", REFUSED.values(), ids=REFUSED)
def test_a_refused_commit_spoils_no_neighbour(both, refused):
    store, run = both
    run(store.apply([put(run_record("a"), run_record("c", due_ms=3))]))
    run(store.apply([Commit(append=(Item(1, 0, b"input"),))]))
    left = Commit(put=(run_record("x", due_ms=4),), append=(Item(9, 5, b"left"),))
    right = Commit(put=(run_record("y", due_ms=5),), append=(Item(1, 1, b"right"),))
    assert run(store.apply([left, refused, right, refused])) == [True, False, True, False]
    records, entries, due, *_ = everything(store, run)
    assert [record and record.body for record in records] == [b"", None, b"", None, b"", b""]
    assert entries == [[b"input", b"right"], [b"left"]]
    assert due == [Due(3, "run", "c"), Due(4, "run", "x"), Due(5, "run", "y")]


# --- entries ------------------------------------------------------------------------------------


def test_entries_come_back_in_order_whatever_the_order_of_writing(both):
    store, run = both
    for seqs in ((2, 0), (3,), (1,)):
        run(store.apply([Commit(append=tuple(Item(7, seq, b"%d" % seq) for seq in seqs))]))
    run(store.apply([Commit(append=(Item(8, 0, b"of another"),))]))
    assert run(store.entries(7)) == [b"0", b"1", b"2", b"3"]
    assert run(store.entries(7, 1)) == [b"2", b"3"]
    assert run(store.entries(7, 3)) == run(store.entries(6)) == []


def test_an_entry_is_never_written_again(both):
    store, run = both
    first = Commit(append=(Item(1, 0, b"first"),))
    second = Commit(append=(Item(1, 0, b"second"),))
    assert run(store.apply([first, second])) == [True, False]
    assert run(store.apply([second])) == [False]
    assert run(store.entries(1)) == [b"first"]


# --- finding again ------------------------------------------------------------------------------


def test_due_are_those_up_to_the_instant_by_instant_and_then_by_number(both):
    store, run = both
    instants = {"a": 30, "b": 10, "c": 20, "d": 10, "e": None, "f": -5}
    run(store.apply([put(*(run_record(key, due_ms=at) for key, at in instants.items()))]))
    # Filed again under the same instant, it keeps its place.
    run(store.apply([put(run_record("b", 2, due_ms=10))]))
    order = [Due(-5, "run", "f"), Due(10, "run", "b"), Due(10, "run", "d"), Due(20, "run", "c")]
    assert run(store.due(20, 100)) == order
    assert run(store.due(20, 3)) == order[:3]
    assert run(store.due(-6, 100)) == run(store.due(100, 0)) == []
    assert run(store.next_due()) == -5


def test_next_due_follows_what_is_put_moved_and_dropped(both):
    store, run = both
    assert run(store.next_due()) is None
    run(store.apply([put(run_record("a", due_ms=0), run_record("b", due_ms=9))]))
    assert run(store.next_due()) == 0
    run(store.apply([put(run_record("a", 2, due_ms=50))]))
    assert run(store.next_due()) == 9
    run(store.apply([Commit(drop=(Key("run", "b"),))]))
    assert run(store.next_due()) == 50
    run(store.apply([put(run_record("a", 3))]))
    assert run(store.next_due()) is None


def test_pages_go_through_a_kind_in_the_order_in_which_records_were_made(both):
    store, run = both
    keys = [f"{n % 7}-{n}" for n in range(25)]
    for key in keys:
        run(store.apply([put(run_record(key), Record("other", key, 1, b""))]))
    run(store.apply([put(run_record(keys[3], 2))]))  # changed, so no later in the order
    found, after = [], 0
    while page := run(store.page("run", None, after, 4)):
        assert len(page) <= 4
        after = page[-1].number
        found += page
    assert [record.key for record in found] == keys
    numbers = [record.number for record in found]
    assert numbers == sorted(set(numbers))
    assert run(store.page("none", None, 0, 4)) == run(store.page("run", None, 0, 0)) == []


def test_pages_of_a_tag_follow_the_tag(both):
    store, run = both
    for n in range(6):
        run(store.apply([put(run_record(str(n), tag="odd" if n % 2 else "even"))]))
    run(store.apply([put(run_record("1", 2, tag="even"))]))
    run(store.apply([put(Record("other", "1", 1, b"", tag="even"))]))
    even = run(store.page("run", "even", 0, 10))
    assert [record.key for record in even] == ["0", "1", "2", "4"]
    assert [record.key for record in run(store.page("run", "even", even[1].number, 1))] == ["2"]
    assert [record.key for record in run(store.page("run", "odd", 0, 10))] == ["3", "5"]
    assert run(store.page("run", "", 0, 10)) == []


def test_a_number_is_never_given_twice_so_that_no_page_misses_a_record(both):
    store, run = both
    run(store.apply([put(run_record("a")), put(run_record("b"))]))
    after = run(store.page("run", None, 0, 10))[-1].number
    run(store.apply([Commit(drop=(Key("run", "b"),))]))
    run(store.close())
    run(store.open())
    run(store.apply([put(run_record("c"))]))
    assert [record.key for record in run(store.page("run", None, after, 10))] == ["c"]


# --- opening, closing, one call at a time -------------------------------------------------------


def test_what_was_applied_is_there_after_opening_again(both):
    store, run = both
    run(store.apply([put(run_record("a", 2, b"x" * 100_000, due_ms=5, tag="t"))]))
    run(store.apply([Commit(append=(Item(1, 0, b"input"), Item(1, 1, b"y" * 2_000_000)))]))
    before = everything(store, run)
    for _ in range(3):
        run(store.close())
        run(store.open())
        run(store.open())  # which is nothing
        assert everything(store, run) == before


def test_a_store_that_is_not_open_says_so_and_may_be_closed_twice(both):
    store, run = both
    run(store.close())
    run(store.close())
    asked = [
        lambda: store.apply([Commit()]),
        lambda: store.load([Key("run", "a")]),
        lambda: store.entries(1),
        lambda: store.due(0, 1),
        store.next_due,
        lambda: store.page("run", None, 0, 1),
    ]
    for ask in asked:
        with pytest.raises(StoreFault, match="not open"):
            run(ask())
    run(store.open())
    assert run(store.next_due()) is None


def test_calls_made_at_once_are_answered_as_if_one_after_another(both):
    store, run = both

    async def at_once():
        rivals = [
            store.apply([put(run_record("a", 1, b"%d" % n), expect=(Expect("run", "a", 0),))])
            for n in range(20)
        ]
        reads = [store.load([Key("run", "a")]) for _ in range(20)]
        answers = await asyncio.gather(
            *(call for pair in zip(rivals, reads, strict=True) for call in pair)
        )
        return answers[::2], answers[1::2]

    made, read = run(at_once())
    assert made == [[True]] + [[False]] * 19
    assert {found[0].body for found in read} == {b"0"}


def test_nobody_reads_what_is_not_durable_yet(both):
    store, run = both

    async def at_once():
        big = [put(run_record(str(n))) for n in range(300)]
        task = asyncio.ensure_future(store.apply(big))
        seen = []
        while not task.done():
            await asyncio.sleep(0)  # let it begin, and look while its COMMIT is on its way
            seen.append((len(await store.page("run", None, 0, 1000)), task.done()))
        await task
        return seen

    assert set(run(at_once())) <= {(0, False), (300, True)}


# --- both in step -------------------------------------------------------------------------------

kinds = st.sampled_from(["run", "wait"])
keys = st.builds(Key, kinds, st.sampled_from(["a", "b", "c\0", "ü"]))
versions = st.integers(0, 3)
instants = st.none() | st.integers(-3, 6) | st.sampled_from([-(1 << 63), (1 << 63) - 1])
tags = st.sampled_from(["", "x", "y"])
bodies = st.binary(max_size=8)
run_nos = st.integers(0, 2)
seqs = st.integers(0, 12)
items = st.builds(Item, run_nos, seqs, bodies)


@st.composite
def commits(draw) -> Commit:
    """Mostly small, so that many are made; sometimes with something that refuses them."""

    def some(of: st.SearchStrategy, most: int = 2) -> tuple:
        return tuple(draw(st.lists(of, max_size=most)))

    return Commit(
        expect=tuple(Expect(*key, draw(versions)) for key in some(keys)),
        put=tuple(
            Record(*key, draw(versions), draw(bodies), draw(instants), draw(tags))
            for key in some(keys)
        ),
        drop=some(keys, 1),
        append=some(items, 3),
    )


class InStep(RuleBasedStateMachine):
    """The same calls on both stores, and the same answers."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.runner = asyncio.Runner()
        self.memory: Store = MemoryStore()
        self.sqlite: Store = MAKERS["sqlite"](self.folder.name)

    def ask(self, call):
        """What both answer, which is the same."""
        of_memory = self.runner.run(call(self.memory))
        of_sqlite = self.runner.run(call(self.sqlite))
        assert _plain(of_memory) == _plain(of_sqlite)
        return of_memory, of_sqlite

    @initialize()
    def open(self):
        self.ask(lambda store: store.open())

    def teardown(self):
        for store in (self.memory, self.sqlite):
            self.runner.run(store.close())
        self.runner.close()
        self.folder.cleanup()

    @rule(batch=st.lists(commits(), max_size=4))
    def apply(self, batch):
        self.ask(lambda store: store.apply(batch))

    @rule(key=keys, body=bodies, due_ms=instants, tag=tags, item=items)
    def swap(self, key, body, due_ms, tag, item):
        """What an engine does: decide about the version that is there."""
        (have,), _ = self.ask(lambda store: store.load([key]))
        version = have.version if have else 0
        there, _ = self.ask(lambda store: store.entries(item.run_no))
        commit = Commit(
            expect=(Expect(*key, version),),
            put=(Record(*key, version + 1, body, due_ms, tag),),
            append=(item._replace(seq=100 + len(there)),),
        )
        made, _ = self.ask(lambda store: store.apply([commit, commit]))
        assert made == [True, False]

    @rule()
    def reopen(self):
        self.ask(lambda store: store.close())
        self.ask(lambda store: store.open())

    @rule(run_no=run_nos, after=st.integers(-1, 13))
    def entries(self, run_no, after):
        self.ask(lambda store: store.entries(run_no, after))

    @rule(until_ms=instants.filter(lambda at: at is not None), limit=st.integers(0, 5))
    def due(self, until_ms, limit):
        self.ask(lambda store: store.due(until_ms, limit))

    @rule(kind=kinds, tag=st.none() | tags, limit=st.integers(1, 5))
    def pages(self, kind, tag, limit):
        after = (0, 0)
        while True:
            of_memory = self.runner.run(self.memory.page(kind, tag, after[0], limit))
            of_sqlite = self.runner.run(self.sqlite.page(kind, tag, after[1], limit))
            assert _plain(of_memory) == _plain(of_sqlite)
            if not of_memory:
                break
            for page, before in ((of_memory, after[0]), (of_sqlite, after[1])):
                numbers = [before, *(record.number for record in page)]
                assert numbers == sorted(set(numbers))
            after = (of_memory[-1].number, of_sqlite[-1].number)

    @invariant()
    def the_same_all_over(self):
        self.ask(lambda store: store.next_due())
        self.ask(lambda store: store.due((1 << 63) - 1, 100))
        for kind in ("run", "wait"):
            self.ask(lambda store, kind=kind: store.page(kind, None, 0, 100))
        for run_no in range(3):
            self.ask(lambda store, run_no=run_no: store.entries(run_no))


def _plain(answer: object) -> object:
    if isinstance(answer, list):
        return [plain(one) if isinstance(one, Record) else one for one in answer]
    return answer


def test_both_stores_answer_the_same_whatever_they_are_asked():
    run_state_machine_as_test(
        InStep,
        settings=settings(
            max_examples=60,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
