// SPDX-License-Identifier: GPL-2.0

#include <linux/bottom_half.h>
#include <linux/hrtimer.h>
#include <linux/ktime.h>
#include <linux/percpu.h>
#include <linux/spinlock.h>
#include <linux/timekeeping.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include "sync.h"

/* Locks that exclude bottom halves. */

void metaroce_spin_lock_bh(spinlock_t *lock)
{
	spin_lock_bh(lock);
}

int metaroce_spin_trylock_bh(spinlock_t *lock)
{
	return spin_trylock_bh(lock);
}

void metaroce_spin_unlock_bh(spinlock_t *lock)
{
	spin_unlock_bh(lock);
}

void metaroce_local_bh_disable(void)
{
	local_bh_disable();
}

void metaroce_local_bh_enable(void)
{
	local_bh_enable();
}

/* Timers. */

bool metaroce_hrtimer_is_queued(const struct hrtimer *timer)
{
	return hrtimer_is_queued((struct hrtimer *)timer);
}

u64 metaroce_ktime_get_ns(void)
{
	return ktime_get_ns();
}

/* Tables of identifiers. */

void metaroce_xa_init(struct xarray *xa)
{
	xa_init_flags(xa, XA_FLAGS_ALLOC | XA_FLAGS_LOCK_BH);
}

int metaroce_xa_insert_bh(struct xarray *xa, u32 id, void *entry)
{
	return xa_insert_bh(xa, id, entry, GFP_KERNEL);
}

int metaroce_xa_alloc_cyclic_bh(struct xarray *xa, u32 *id, void *entry,
				u32 min, u32 max, u32 *next)
{
	return xa_alloc_cyclic_bh(xa, id, entry, XA_LIMIT(min, max), next,
				  GFP_KERNEL);
}

void *metaroce_xa_find(struct xarray *xa, unsigned long *id, unsigned long max)
{
	return xa_find(xa, id, max, XA_PRESENT);
}

/* An entry that is there needs no memory to be replaced. NULL if there is none. */
void *metaroce_xa_replace_bh(struct xarray *xa, u32 id, void *entry)
{
	void *old;

	xa_lock_bh(xa);
	old = xa_load(xa, id);
	if (old)
		old = __xa_store(xa, id, entry, GFP_NOWAIT);
	xa_unlock_bh(xa);
	return old;
}

void *metaroce_xa_erase_bh(struct xarray *xa, u32 id)
{
	return xa_erase_bh(xa, id);
}

/* Workqueues. */

struct workqueue_struct *metaroce_alloc_workqueue(const char *name,
						  unsigned int flags)
{
	return alloc_workqueue("%s", flags, 0, name);
}

/* Counters, one instance a CPU. */

u64 __percpu *metaroce_alloc_percpu_u64(size_t n)
{
	return __alloc_percpu(array_size(n, sizeof(u64)), __alignof__(u64));
}

void metaroce_this_cpu_add_u64(u64 __percpu *counter, u64 n)
{
	this_cpu_add(*counter, n);
}

u64 metaroce_percpu_sum_u64(u64 __percpu *counter)
{
	u64 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += READ_ONCE(*per_cpu_ptr(counter, cpu));
	return sum;
}
