/* Preloaded into a host by a test: once the file that FAIL_FSYNC names is there, no fsync of the log succeeds, as on a disk that is dying. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int fails(int fd)
{
    const char *mark = getenv("FAIL_FSYNC");
    char link[64], path[4096];
    if (!mark || access(mark, F_OK) != 0)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0)
        return 0;
    path[length] = 0;
    return strstr(path, "/log/") != NULL;
}

static int synced(long call, int fd)
{
    if (fails(fd)) {
        errno = EIO;
        return -1;
    }
    return (int)syscall(call, fd);
}

int fsync(int fd)
{
    return synced(SYS_fsync, fd);
}

int fdatasync(int fd)
{
    return synced(SYS_fdatasync, fd);
}
