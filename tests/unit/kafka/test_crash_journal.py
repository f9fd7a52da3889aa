"""A death is blamed on what was in hand, and on nothing else, whatever crashes when."""

from __future__ import annotations

import json
import tempfile
import zlib
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from pipeline.errors import BrokerDownError
from pipeline.kafka.crash_journal import FATAL_DEATHS, CrashJournal, Work, work_of
from pipeline.kafka.dead_letters import Source

DAY = 86_400


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal" / "app-batcher-0"


def work(offset: int, *, partition: int = 0, part: int = 0, checksum: int = 7) -> Work:
    return Work("requests", partition, offset, part, checksum)


def test_what_was_in_hand_at_each_death_is_counted(path: Path) -> None:
    for deaths in range(1, FATAL_DEATHS + 1):
        CrashJournal(path).begin([work(5)])
        assert CrashJournal(path).deaths(work(5)) == deaths


def test_what_rests_or_has_ended_is_not_blamed(path: Path) -> None:
    journal = CrashJournal(path)
    journal.begin([work(1), work(2), work(3)])
    journal.rest([work(1)])
    journal.end([work(2)])
    successor = CrashJournal(path)
    assert [successor.deaths(work(offset)) for offset in (1, 2, 3)] == [0, 0, 1]


def test_a_suspect_that_rests_stays_one_and_one_that_ends_does_not(path: Path) -> None:
    CrashJournal(path).begin([work(1), work(2)])
    journal = CrashJournal(path)
    journal.begin([work(1), work(2)])
    journal.rest([work(1)])
    journal.end([work(2)])
    assert [CrashJournal(path).deaths(work(offset)) for offset in (1, 2)] == [1, 0]


def test_a_start_that_handles_nothing_blames_nothing(path: Path) -> None:
    CrashJournal(path).begin([work(1)])
    for _ in range(5):
        CrashJournal(path)
    assert CrashJournal(path).deaths(work(1)) == 1


def test_exactly_what_is_held_is_in_hand(path: Path) -> None:
    journal = CrashJournal(path)
    journal.hold({work(1), work(2)})
    journal.hold({work(2), work(3)})
    successor = CrashJournal(path)
    assert [successor.deaths(work(offset)) for offset in (1, 2, 3)] == [0, 1, 1]


def test_the_parts_of_a_record_are_blamed_each_by_itself(path: Path) -> None:
    CrashJournal(path).begin([work(1, part=2)])
    journal = CrashJournal(path)
    assert [journal.deaths(work(1, part=part)) for part in range(3)] == [0, 0, 1]


def test_another_record_at_the_same_offset_is_innocent(path: Path) -> None:
    """As on a broker that was made anew."""
    for _ in range(FATAL_DEATHS):
        CrashJournal(path).begin([work(1)])
    journal = CrashJournal(path)
    assert journal.deaths(work(1, checksum=8)) == 0
    assert journal.deaths(work(1)) == 0, "nor can the old one come back"


def test_suspects_that_were_passed_over_are_forgotten(path: Path) -> None:
    CrashJournal(path).begin([work(1), work(3), work(1, partition=1)])
    journal = CrashJournal(path)
    assert journal.deaths(work(3)) == 1
    assert journal.deaths(work(1)) == 0
    assert journal.deaths(work(1, partition=1)) == 1


def test_a_suspect_that_has_come_may_come_again(path: Path) -> None:
    """As after a transaction that failed."""
    CrashJournal(path).begin([work(1)])
    journal = CrashJournal(path)
    assert [journal.deaths(work(offset)) for offset in (1, 2, 1)] == [1, 0, 1]


def test_a_suspect_that_does_not_come_back_is_forgotten_after_a_day(path: Path) -> None:
    CrashJournal(path).begin([work(1)])
    CrashJournal(path, now=lambda: 0)
    assert CrashJournal(path, now=lambda: DAY - 1).deaths(work(1)) == 1
    assert CrashJournal(path, now=lambda: DAY).deaths(work(1)) == 0


@pytest.mark.parametrize("error", [SystemExit(1), BrokerDownError("away"), KafkaException(KafkaError(-1))])
def test_an_orderly_end_and_an_outage_let_everything_go(path: Path, error: BaseException) -> None:
    with pytest.raises(type(error)), CrashJournal(path) as journal:
        journal.begin([work(1)])
        raise error
    assert CrashJournal(path).deaths(work(1)) == 0


def test_a_bug_is_blamed_on_what_was_in_hand(path: Path) -> None:
    with pytest.raises(ZeroDivisionError), CrashJournal(path) as journal:
        journal.begin([work(1)])
        raise ZeroDivisionError
    assert CrashJournal(path).deaths(work(1)) == 1


def pages(path: Path) -> list[Path]:
    return sorted(path.parent.glob(f"{path.name}.?"), key=_turn)


def test_a_page_whose_bytes_have_changed_is_not_believed(path: Path) -> None:
    """As when the beginning of a line was written over a longer one, and what is left reads well by chance."""
    journal = CrashJournal(path)
    journal.begin([work(1)])
    journal.begin([work(2)])
    newest = pages(path)[-1]
    newest.write_bytes(newest.read_bytes().replace(b'"requests", 0, 1', b'"requests", 0, 9'))
    successor = CrashJournal(path)
    assert [successor.deaths(work(offset)) for offset in (1, 2, 9)] == [1, 0, 0]


def tear(path: Path) -> None:
    """Leave the newest page without the end of its line."""
    newest = pages(path)[-1]
    newest.write_bytes(newest.read_bytes().partition(b"\n")[0][:-1])


def _turn(page: Path) -> int:
    return int(json.loads(page.read_bytes().partition(b"\n")[0][9:] or b'{"turn": 0}')["turn"])


def test_a_write_that_was_cut_short_leaves_the_one_before(path: Path) -> None:
    journal = CrashJournal(path)
    journal.begin([work(1)])
    journal.begin([work(2)])
    tear(path)
    successor = CrashJournal(path)
    assert [successor.deaths(work(offset)) for offset in (1, 2)] == [1, 0]


@pytest.mark.parametrize(
    "content",
    [b"", b"\x00" * 50, b"nonsense", b'{"turn": 1}', *(
        b"%08x %b\n" % (zlib.crc32(text), text)
        for text in (
            b"3", b"{}", b'{"turn": "x"}', b'{"turn": 9, "in_hand": 3, "suspects": []}',
            b'{"turn": 9, "in_hand": [[]], "suspects": []}', b'{"turn": 9, "in_hand": [], "suspects": [[1]]}',
        )
    )],
)  # fmt: skip
def test_files_that_are_none_of_ours_count_as_empty(path: Path, content: bytes) -> None:
    CrashJournal(path).begin([work(1)])
    for page in pages(path):
        page.write_bytes(content)
    journal = CrashJournal(path)
    assert journal.deaths(work(1)) == 0
    journal.begin([work(2)])
    assert CrashJournal(path).deaths(work(2)) == 1


def test_a_record_is_known_by_its_key_and_value() -> None:
    record = Source("requests", 3, 9, 1, b"key", b"value")
    assert work_of(record, 2) == Work("requests", 3, 9, 2, zlib.crc32(b"keyvalue"))
    assert work_of(Source("requests", 3, 9, 1, None, None)).checksum == 0


class Lives(RuleBasedStateMachine):
    """The journal beside a model, through any number of lives."""

    works = st.integers(0, 5).map(lambda offset: work(3, part=offset))

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "journal"
        self.journal = CrashJournal(self.path)
        self.in_hand: set[Work] = set()
        self.deaths: dict[Work, int] = {}

    def teardown(self) -> None:
        self.folder.cleanup()

    @rule(works=st.sets(works))
    def begin(self, works: set[Work]) -> None:
        self.journal.begin(works)
        self.in_hand |= works

    @rule(works=st.sets(works))
    def hold(self, works: set[Work]) -> None:
        self.journal.hold(works)
        self.in_hand = set(works)

    @rule(works=st.sets(works))
    def rest(self, works: set[Work]) -> None:
        self.journal.rest(works)
        self.in_hand -= works

    @rule(works=st.sets(works))
    def end(self, works: set[Work]) -> None:
        self.journal.end(works)
        self.in_hand -= works
        for each in works:
            self.deaths.pop(each, None)

    @rule(torn=st.booleans(), works=st.sets(works, min_size=1))
    def crash(self, torn: bool, works: set[Work]) -> None:
        """The process is killed, perhaps while it writes what it is about to take in hand."""
        for each in self.in_hand:
            self.deaths[each] = self.deaths.get(each, 0) + 1
        if torn and not works <= self.in_hand:
            self.journal.begin(works)
            tear(self.path)
        self.journal, self.in_hand = CrashJournal(self.path), set()

    @rule()
    def stop(self) -> None:
        with self.journal:
            pass
        self.journal, self.in_hand = CrashJournal(self.path), set()

    @invariant()
    def deaths_count_only_what_was_in_hand(self) -> None:
        for part in range(6):
            assert self.journal.deaths(work(3, part=part)) == self.deaths.get(work(3, part=part), 0)


TestLives = Lives.TestCase
TestLives.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
