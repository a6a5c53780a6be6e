/* Shifts the time of day of a process by the seconds in the file that SHIFTED_CLOCK names (a double).
   The monotonic clock, and so each pause and time-out that uses it, stays real. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define BILLION 1000000000L

static const volatile double *shift;
static int (*real_clock)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void)
{
    static const double none = 0;
    int file = open(getenv("SHIFTED_CLOCK") ? getenv("SHIFTED_CLOCK") : "", O_RDONLY | O_CLOEXEC);
    void *found = file < 0 ? MAP_FAILED : mmap(NULL, sizeof(double), PROT_READ, MAP_SHARED, file, 0);
    real_clock = NEXT(clock_gettime);
    shift = found == MAP_FAILED ? &none : found;
}

static void add(struct timespec *when, double seconds)
{
    double whole = floor(seconds);
    when->tv_sec += (time_t)whole;
    when->tv_nsec += (long)((seconds - whole) * BILLION);
    if (when->tv_nsec >= BILLION) {
        when->tv_sec++;
        when->tv_nsec -= BILLION;
    }
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    if (!real_clock)
        begin();
    int result = real_clock(clock, now);
    if (!result && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        add(now, *shift);
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec exact;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *seconds)
{
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (seconds)
        *seconds = exact.tv_sec;
    return exact.tv_sec;
}

/* The kernel counts in real time, so a deadline by the shifted clock is shifted back. A monotonic one is a small number. */
static struct timespec real(const struct timespec *deadline)
{
    struct timespec found = *deadline;
    if (found.tv_sec > BILLION)
        add(&found, -*shift);
    return found;
}

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict deadline)
{
    struct timespec found = real(deadline);
    return NEXT(sem_timedwait)(semaphore, &found);
}

int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict deadline)
{
    static int (*wait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    struct timespec found = real(deadline);
    if (!wait)
        wait = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
    if (!wait)
        wait = NEXT(pthread_cond_timedwait);
    return wait(condition, mutex, &found);
}
