"""scripts/check_notebook.py on real git repositories: what it lets through, what it names."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[4] / "scripts" / "check_notebook.py"
# Run from a git hook, these would point git at the repository under the hook instead of at ours.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
ENVIRONMENT |= {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    **{f"GIT_{who}_{what}": "t@t" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}


class Repository:
    """A git repository with one committed entry, `results/00-first.md`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "results").mkdir(parents=True)
        self.git("init", "--quiet", "--initial-branch=main")
        self.write("results/00-first.md", "one\n")
        self.commit()

    def git(self, *arguments: str) -> None:
        subprocess.run(["git", *arguments], cwd=self.root, env=ENVIRONMENT, check=True)

    def write(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(exist_ok=True)
        (self.root / path).write_text(text)

    def commit(self) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message=c")


def check(root: Path, **environment: str) -> tuple[int, list[str]]:
    """Return the script's exit code and the lines it printed."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--root", str(root)],
        env=ENVIRONMENT | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return done.returncode, done.stdout.splitlines()


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repository")


def refused(repository: Repository, *words: str) -> None:
    code, lines = check(repository.root)
    assert code == 1
    assert len(lines) == 1, lines
    for word in words:
        assert word in lines[0]


def test_an_untouched_notebook_passes_in_silence(repository: Repository) -> None:
    assert check(repository.root) == (0, [])


def test_new_entries_pass_before_and_after_their_commit(repository: Repository) -> None:
    repository.write("results/01-second é.md", "two\n")
    repository.write("results/02-third/table.csv", "3\n")
    assert check(repository.root) == (0, [])
    repository.commit()
    assert check(repository.root) == (0, [])


def test_other_files_may_change(repository: Repository) -> None:
    repository.write("results/README.md", "about\n")
    repository.commit()
    repository.write("results/README.md", "about it\n")
    assert check(repository.root) == (0, [])


def test_an_edit_in_the_working_tree_fails(repository: Repository) -> None:
    repository.write("results/00-first.md", "one!\n")
    refused(repository, "results/00-first.md", "edited in the working tree")


def test_a_committed_edit_fails_for_good(repository: Repository) -> None:
    repository.write("results/00-first.md", "one!\n")
    repository.commit()
    repository.write("other.txt", "more history\n")
    repository.commit()
    refused(repository, "results/00-first.md", "edited in a commit")


def test_an_edit_taken_back_passes(repository: Repository) -> None:
    repository.write("results/00-first.md", "one!\n")
    repository.commit()
    repository.write("results/00-first.md", "one\n")
    repository.commit()
    assert check(repository.root) == (0, [])


def test_a_deletion_fails_before_and_after_its_commit(repository: Repository) -> None:
    (repository.root / "results/00-first.md").unlink()
    refused(repository, "results/00-first.md", "deleted", "working tree")
    repository.commit()
    refused(repository, "results/00-first.md", "deleted", "in a commit")


def test_an_entry_written_anew_after_its_deletion_fails(repository: Repository) -> None:
    (repository.root / "results/00-first.md").unlink()
    repository.commit()
    repository.write("results/00-first.md", "quite another\n")
    repository.commit()
    refused(repository, "results/00-first.md", "edited in a commit")


def test_a_rename_fails(repository: Repository) -> None:
    repository.git("mv", "results/00-first.md", "results/01-first.md")
    refused(repository, "results/00-first.md", "renamed")
    repository.commit()
    refused(repository, "results/00-first.md", "renamed")


def test_a_link_in_place_of_an_entry_fails(repository: Repository) -> None:
    entry = repository.root / "results/00-first.md"
    entry.rename(repository.root / "elsewhere.md")
    entry.symlink_to("../elsewhere.md")
    refused(repository, "results/00-first.md", "working tree")


def test_an_edit_of_a_file_in_an_entry_that_is_a_folder_fails(repository: Repository) -> None:
    repository.write("results/01-folder/table.csv", "1\n")
    repository.commit()
    repository.write("results/01-folder/table.csv", "2\n")
    refused(repository, "results/01-folder/table.csv", "edited")


def test_an_entry_that_came_with_a_merge_is_guarded_too(repository: Repository) -> None:
    repository.git("switch", "--quiet", "--create", "side")
    repository.write("results/01-side.md", "side\n")
    repository.commit()
    repository.git("switch", "--quiet", "main")
    repository.write("other.txt", "main moved on\n")
    repository.commit()
    repository.git("merge", "--quiet", "--no-edit", "side")
    assert check(repository.root) == (0, [])
    repository.write("results/01-side.md", "side!\n")
    repository.commit()
    refused(repository, "results/01-side.md", "edited in a commit")


def test_an_entry_added_by_the_merge_itself_is_guarded_too(repository: Repository) -> None:
    repository.git("switch", "--quiet", "--create", "side")
    repository.write("other.txt", "side moved on\n")
    repository.commit()
    repository.git("switch", "--quiet", "main")
    repository.git("merge", "--quiet", "--no-ff", "--no-commit", "side")
    repository.write("results/01-merge.md", "written while merging\n")
    repository.commit()
    assert check(repository.root) == (0, [])
    repository.write("results/01-merge.md", "written later\n")
    repository.commit()
    refused(repository, "results/01-merge.md", "edited in a commit")


def test_an_entry_deleted_on_a_merged_branch_fails(repository: Repository) -> None:
    repository.git("switch", "--quiet", "--create", "side")
    repository.write("results/01-side.md", "side\n")
    repository.commit()
    (repository.root / "results/01-side.md").unlink()
    repository.commit()
    repository.git("switch", "--quiet", "main")
    repository.git("merge", "--quiet", "--no-ff", "--no-edit", "side")
    refused(repository, "results/01-side.md", "deleted", "in a commit")


def test_an_entry_that_was_a_draft_before_is_guarded_from_its_first_commit(
    repository: Repository,
) -> None:
    repository.write("results/draft.md", "a draft that is long enough to be found again\n")
    repository.commit()
    repository.git("mv", "results/draft.md", "results/01-final.md")
    repository.commit()
    assert check(repository.root) == (0, [])
    repository.write("results/01-final.md", "no longer\n")
    repository.commit()
    refused(repository, "results/01-final.md", "edited in a commit")


def test_two_entries_with_one_number_fail(repository: Repository) -> None:
    repository.write("results/00-again.md", "two\n")
    refused(repository, "00 is used twice", "results/00-again.md", "results/00-first.md")


def test_a_shallow_clone_is_refused_because_it_cannot_tell(
    repository: Repository, tmp_path: Path
) -> None:
    repository.write("results/00-first.md", "one!\n")
    repository.commit()
    clone = tmp_path / "clone"
    repository.git("clone", "--quiet", "--depth=1", repository.root.as_uri(), str(clone))
    code, lines = check(clone)
    assert code == 1
    assert len(lines) == 1
    assert "git fetch --unshallow" in lines[0]


def test_a_folder_without_git_says_that_it_cannot_be_checked(tmp_path: Path) -> None:
    code, lines = check(tmp_path)
    assert code == 0
    assert len(lines) == 1
    assert "not a git checkout" in lines[0]


def test_a_repository_without_a_commit_has_no_entry_to_guard(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], env=ENVIRONMENT, check=True)
    assert check(tmp_path) == (0, [])


def test_a_checkout_without_a_git_program_fails(repository: Repository, tmp_path: Path) -> None:
    code, lines = check(repository.root, PATH=str(tmp_path))
    assert code == 1
    assert "git is not installed" in lines[0]


def test_a_checkout_that_git_refuses_fails(repository: Repository) -> None:
    (repository.root / ".git" / "HEAD").write_text("nonsense\n")
    code, lines = check(repository.root)
    assert code == 1
    assert "failed" in lines[0]
