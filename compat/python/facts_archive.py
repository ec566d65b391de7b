"""facts_archive.py: wheels and sdists, read in memory; nothing is unpacked to disk.

An archive that names a file outside itself, unpacks to far more than it holds, or is damaged in what is read of it is
refused as a whole: nothing else in it deserves belief.
"""
import bz2
import gzip
import os
import stat
import struct
import tarfile
import zipfile
import zlib

from facts_error import FILE_BYTES, FILES, RATIO, RATIO_FROM, SOURCE_BYTES, TAR_BYTES, Refusal, printable

_BROKEN = (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, OSError, ValueError, NotImplementedError,
           RuntimeError, struct.error, OverflowError, KeyError, IndexError, UnicodeError)
_DIRECTORY_BYTES = 64 << 20  # of a zip's central directory, before it is read
_FORMATS = "a wheel (.whl), or an sdist (.tar.gz, .tgz, .tar.bz2, .tar, .zip)"


def _refuse(source, found, wanted):
    raise Refusal("read archive", source, found, wanted)


def _check_name(source, name):
    parts = name.replace("\\", "/").split("/")
    if name.startswith(("/", "\\")) or ".." in parts or name[1:2] == ":":
        _refuse(source, "a member named %s" % name, "names inside the archive")


def _check_bomb(source, name, size, packed):
    if size > RATIO_FROM and size > RATIO * max(packed, 1):
        _refuse(source, "%s, %d bytes packed into %d" % (name, size, packed), "at most %d times as many" % RATIO)


def _directory_bytes(path):
    """Size of a zip's central directory as its end record says; 0 where there is none."""
    with open(path, "rb") as stream:
        stream.seek(0, os.SEEK_END)
        stream.seek(max(0, stream.tell() - 66000))
        tail = stream.read()
    at, at64 = tail.rfind(b"PK\5\6"), tail.rfind(b"PK\6\6")
    size = struct.unpack_from("<I", tail, at + 12)[0] if 0 <= at <= len(tail) - 22 else 0
    if size == 0xFFFFFFFF and 0 <= at64 <= len(tail) - 56:
        size = struct.unpack_from("<Q", tail, at64 + 40)[0]
    return size


class _Zip:
    def __init__(self, path, wanted, problems):
        self.path = path
        if _directory_bytes(path) > _DIRECTORY_BYTES:
            _refuse(path, "a directory of more than %d bytes" % _DIRECTORY_BYTES, "less")
        self.archive = zipfile.ZipFile(path)
        self.members, total = {}, 0
        rows = self.archive.infolist()
        if len(rows) > FILES:
            _refuse(path, "%d members" % len(rows), "at most %d" % FILES)
        for row in rows:
            _check_name(path, row.filename)
            if row.is_dir() or not wanted(row.filename):
                continue
            if stat.S_ISLNK(row.external_attr >> 16):
                problems.add(row.filename, 0, "a link in an archive")
                continue
            if row.filename in self.members:
                problems.add(row.filename, 0, "a second member of this name; the last one is read")
            self.members[row.filename] = row
            if not row.filename.endswith((".so", ".pyd")):
                _check_bomb(path, row.filename, row.file_size, row.compress_size)
                total += row.file_size
        if total > SOURCE_BYTES:
            _refuse(path, "%d bytes of Python" % total, "at most %d" % SOURCE_BYTES)

    def read(self, name):
        """At most one byte more than is allowed; up to there the checksum and the size are held against the data."""
        row = self.members[name]
        try:
            with self.archive.open(row) as stream:
                data = stream.read(FILE_BYTES + 1)
        except _BROKEN as error:
            said = printable(error) or type(error).__name__
            _refuse(self.path, "%s, which cannot be unpacked: %s" % (name, said), "an undamaged archive")
        if len(data) != min(row.file_size, FILE_BYTES + 1):
            _refuse(self.path, "%s, %d bytes where %d are said" % (name, len(data), row.file_size),
                    "an undamaged archive")
        return data


class _Counted:
    """A stream that refuses to give more than a bound, or far more than went in."""

    def __init__(self, source, packed, stream):
        self.source, self.packed, self.stream, self.given = source, packed, stream, 0

    def read(self, size=-1):
        data = self.stream.read(size if 0 <= size <= 1 << 20 else 1 << 20)
        self.given += len(data)
        if self.given > TAR_BYTES:
            _refuse(self.source, "more than %d bytes unpacked" % TAR_BYTES, "less")
        if self.given > 64 * RATIO_FROM:
            _check_bomb(self.source, "contents", self.given, self.packed)
        return data


def _open_stream(path):
    with open(path, "rb") as stream:
        magic = stream.read(3)
    return gzip.open(path) if magic[:2] == b"\x1f\x8b" else bz2.open(path) if magic == b"BZh" else open(path, "rb")


class _Tar:
    def __init__(self, path, wanted, problems):
        self.members, total, count = {}, 0, 0
        with _open_stream(path) as raw:
            stream = _Counted(path, os.path.getsize(path), raw)
            with tarfile.open(fileobj=stream, mode="r|") as archive:
                for row in archive:
                    count += 1
                    archive.members = []  # otherwise every header is kept
                    if count > FILES:
                        _refuse(path, "more than %d members" % FILES, "fewer")
                    _check_name(path, row.name)
                    if wanted(row.name):
                        total += self.take(row, archive, problems)
                    if total > SOURCE_BYTES:
                        _refuse(path, "more than %d bytes of Python" % SOURCE_BYTES, "less")
            while stream.read():  # the checksum of a compressed stream stands at its end
                pass

    def take(self, row, archive, problems):
        if not row.isfile():
            if not row.isdir():
                problems.add(row.name, 0, "a link in an archive" if row.issym() or row.islnk() else "no regular file")
            return 0
        if row.name.endswith((".so", ".pyd")):
            self.members[row.name] = b""
        elif row.size > FILE_BYTES:
            problems.add(row.name, 0, "a file of more than %d bytes" % FILE_BYTES)
        else:
            self.members[row.name] = archive.extractfile(row).read()
        return row.size

    def read(self, name):
        return self.members[name]


def open_archive(path, wanted, problems):
    """(paths, read) of an archive; `wanted(path)` tells which members count."""
    try:
        form = _Zip if zipfile.is_zipfile(path) else _Tar
        archive = form(path, wanted, problems)
    except _BROKEN as error:
        raise Refusal("read archive", path, printable(error) or type(error).__name__, _FORMATS) from error
    return list(archive.members), archive.read
