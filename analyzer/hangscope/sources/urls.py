"""Turns URLs (s3://, gs://, ssh://, hdfs://, https://) into fsspec's file systems, and what these raise into words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from hangscope.errors import InputError
from hangscope.expressions import expression

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

_URL = expression(r"[A-Za-z][A-Za-z0-9+.-]+://")
_USER = expression(r"(?<=://)(?P<user>[^/@:]*):[^/@]*@")
_QUERY = expression(r"\?.*", re.DOTALL)
_LOCAL = "file://"

_PACKAGES = {
    "s3": "s3fs",
    "s3a": "s3fs",
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "ssh": "paramiko",
    "sftp": "paramiko",
    "hdfs": "pyarrow",
    "http": "aiohttp",
    "https": "aiohttp",
    "abfs": "adlfs",
    "abfss": "adlfs",
    "az": "adlfs",
}
_BY_EXTRA = frozenset({"s3fs", "gcsfs", "paramiko", "aiohttp"})
_CREDENTIALS = {
    "s3": "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or AWS_PROFILE; FSSPEC_S3_ANON=true reads a public bucket.",
    "gs": "Set GOOGLE_APPLICATION_CREDENTIALS, or log in with: gcloud auth application-default login",
    "ssh": "Add your key to ssh-agent, or put username and key_filename into ~/.config/fsspec/conf.json.",
    "hdfs": "Get a ticket with kinit.",
}
_SAME = {"s3a": "s3", "gcs": "gs", "sftp": "ssh"}
# botocore, google-auth, paramiko and gcsfs have classes of their own for it, none of them a PermissionError
_NO_CREDENTIALS = expression(
    r"NoCredentials|NoAuthTokenError|ProfileNotFound|CredentialRetrieval|TokenRetrieval|DefaultCredentials"
    r"|RefreshError|AuthenticationException|PasswordRequired|BadAuthenticationType"
)
_NOT_ALLOWED = expression(
    r"No authentication methods available|invalid_?credentials|Invalid Credentials|InvalidAccessKeyId"
    r"|SignatureDoesNotMatch|Anonymous caller|\b40[13]\b|Unauthorized|Forbidden|Access ?Denied",
    re.IGNORECASE,
)


def is_url(path: str) -> bool:
    """Whether this names something that only fsspec can open; file:// does not."""
    return _URL.match(path) is not None and not path.startswith(_LOCAL)


def local_path(path: str) -> str:
    """The path of a file:// URL; every other path as it is."""
    return path.removeprefix(_LOCAL)


def shown(url: str) -> str:
    """The URL without what is nobody's business: a password, and the signature of a presigned URL."""
    if not is_url(url):
        return url
    safe = _USER.sub(r"\g<user>@", url)
    return _QUERY.sub("", safe) if _scheme(url) in ("http", "https") else safe


def file_system(url: str) -> tuple[AbstractFileSystem, str]:
    """The file system of a URL, and what the file system calls the place there.

    Credentials are those of fsspec's own configuration: the environment, `~/.config/fsspec`, and what the packages for
    each protocol look at.

    Raises:
        InputError: fsspec or the package for this protocol is missing, or the place cannot be reached.
    """
    try:
        from fsspec.core import url_to_fs  # noqa: PLC0415 (an extra, and only for those who give a URL)
    except ImportError:
        raise InputError(f"{shown(url)}: to read URLs fsspec is needed", _install("fsspec")) from None
    try:
        with translated(url):
            found: tuple[AbstractFileSystem, str] = url_to_fs(url)
    except ImportError as error:
        package = _PACKAGES.get(_scheme(url), "")
        needed = f"{package} is needed" if package else str(error)
        raise InputError(f"{shown(url)}: to read {_scheme(url)}:// {needed}", _install(package)) from None
    return found


@contextmanager
def translated(url: str) -> Iterator[None]:
    """Makes an InputError of what a file system raises; a missing file or package stays what it is."""
    try:
        yield
    except (FileNotFoundError, ImportError, InputError):
        raise
    except Exception as error:
        raise _explained(url, error) from error


def reason(error: BaseException) -> str:
    """What an error of a file system says, on one line; its class when it says nothing."""
    strerror = getattr(error, "strerror", None)
    text = " ".join(str(strerror or error).split())
    return text[:300] or type(error).__name__


def unreadable(error: Exception) -> OSError:
    """The error as one of reading: packages for protocols raise classes of their own, which need not be OSErrors."""
    if isinstance(error, InputError):
        return OSError(f"{error} {error.advice}".strip())
    return error if isinstance(error, OSError) else OSError(reason(error))


def _explained(url: str, error: Exception) -> InputError:
    scheme = _scheme(url)
    kind = type(error).__name__
    if isinstance(error, ValueError) and "Protocol not known" in str(error):
        return InputError(f"{shown(url)}: no such protocol: {scheme}", "Known are s3, gs, ssh, hdfs, https and more.")
    if "libjvm" in reason(error) or "libhdfs" in reason(error):
        return InputError(
            f"{shown(url)}: to read hdfs:// Hadoop's client is needed",
            "Install Java and Hadoop, and set JAVA_HOME, HADOOP_HOME and CLASSPATH (hadoop classpath --glob).",
        )
    if _NO_CREDENTIALS.search(kind):
        return InputError(f"{shown(url)}: no valid credentials: {reason(error)}", _credentials(scheme))
    if isinstance(error, PermissionError) or _NOT_ALLOWED.search(reason(error)):
        return InputError(f"{shown(url)}: access was refused: {reason(error)}", _credentials(scheme))
    return InputError(f"{shown(url)}: cannot be reached: {reason(error)}", "Check the address and the network.")


def _credentials(scheme: str) -> str:
    known = _CREDENTIALS.get(_SAME.get(scheme, scheme))
    return known or f"Put the credentials for {scheme} into ~/.config/fsspec/conf.json."


def _install(package: str) -> str:
    if package == "fsspec" or package in _BY_EXTRA:
        return "Install it, here and on the workers: pip install 'hangscope[remote]'"
    return f"Install it, here and on the workers: pip install {package or 'the package that fsspec names'}"


def _scheme(url: str) -> str:
    return urlsplit(url).scheme.lower()


def has_query(url: str) -> bool:
    """Whether a web address has a query, in which ``?`` is no pattern."""
    return _scheme(url) in ("http", "https") and "?" in url


def entry(info: Any) -> tuple[str, int | None]:  # noqa: ANN401 (fsspec's entries are untyped dictionaries)
    """Type and size of an entry as fsspec gives it; the size is None where the server does not say."""
    size = info.get("size")
    return str(info.get("type")), int(size) if size is not None else None
