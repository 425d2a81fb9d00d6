"""Whom a server of the sandbox runs as, and what that account must be able to reach. Only Postgres needs it."""

import os
import pwd
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict


class Identity(TypedDict, total=False):
    """Arguments of subprocess; empty for the current user."""

    user: int
    group: int
    extra_groups: list[int]


@dataclass(frozen=True, slots=True)
class Account:
    """``ids`` are uid and gid, None for the current user."""

    ids: tuple[int, int] | None = None

    @staticmethod
    def for_servers() -> "Account":
        """The current user, or ``nobody`` for root: Postgres refuses to run as root."""
        if os.geteuid() != 0:
            return Account()
        nobody = pwd.getpwnam("nobody")
        return Account(ids=(nobody.pw_uid, nobody.pw_gid))

    @property
    def identity(self) -> Identity:
        return Identity(user=self.ids[0], group=self.ids[1], extra_groups=[]) if self.ids else Identity()

    def own(self, folder: Path) -> None:
        if self.ids is not None:
            os.chown(folder, *self.ids)


def make_folder(folder: Path, account: Account) -> Path:
    """A new folder that only the account may enter."""
    folder.mkdir(mode=0o700)
    account.own(folder)
    return folder


def let_pass(folder: Path, account: Account) -> None:
    """Lets another account walk through the folder and those above it; not list them."""
    if account.ids is None:
        return
    for place in (folder, *folder.parents):
        mode = place.stat().st_mode & 0o7777
        if not mode & 0o001:
            place.chmod(mode | 0o001)


def let_run(programs: Path, account: Account) -> None:
    """Lets another account run what was installed under a strict umask."""
    let_pass(programs, account)
    if account.ids is None or (programs / "postgres").stat().st_mode & 0o005 == 0o005:
        return
    for place in (programs.parent, *programs.parent.rglob("*")):
        if not place.is_symlink():
            mode = place.stat().st_mode & 0o7777
            place.chmod(mode | (mode & 0o500) >> 6)
