/* SPDX-License-Identifier: GPL-2.0 */
#ifndef METAROCE_HELPERS_SYNC_H
#define METAROCE_HELPERS_SYNC_H

#include <linux/hrtimer_types.h>
#include <linux/spinlock_types.h>
#include <linux/types.h>
#include <linux/xarray.h>

struct workqueue_struct;

/* Locks that exclude bottom halves. */
void metaroce_spin_lock_bh(spinlock_t *lock);
int metaroce_spin_trylock_bh(spinlock_t *lock);
void metaroce_spin_unlock_bh(spinlock_t *lock);
void metaroce_local_bh_disable(void);
void metaroce_local_bh_enable(void);

/* Timers. */
bool metaroce_hrtimer_is_queued(const struct hrtimer *timer);
u64 metaroce_ktime_get_ns(void);

/* Tables of identifiers. */
void metaroce_xa_init(struct xarray *xa);
int metaroce_xa_insert_bh(struct xarray *xa, u32 id, void *entry);
int metaroce_xa_alloc_cyclic_bh(struct xarray *xa, u32 *id, void *entry,
				u32 min, u32 max, u32 *next);
void *metaroce_xa_find(struct xarray *xa, unsigned long *id, unsigned long max);
void *metaroce_xa_replace_bh(struct xarray *xa, u32 id, void *entry);
void *metaroce_xa_erase_bh(struct xarray *xa, u32 id);

/* Workqueues. */
struct workqueue_struct *metaroce_alloc_workqueue(const char *name,
						  unsigned int flags);

/* Counters, one instance a CPU. */
u64 __percpu *metaroce_alloc_percpu_u64(size_t n);
void metaroce_this_cpu_add_u64(u64 __percpu *counter, u64 n);
u64 metaroce_percpu_sum_u64(u64 __percpu *counter);

#endif
