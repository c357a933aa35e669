/* SPDX-License-Identifier: GPL-2.0 */
#ifndef METAROCE_HELPERS_ODP_H
#define METAROCE_HELPERS_ODP_H

#include <linux/mmu_notifier.h>
#include <rdma/ib_umem_odp.h>

/* On-demand paging; a kernel without it says EOPNOTSUPP. */
struct ib_umem_odp *
metaroce_odp_get(struct ib_device *dev, unsigned long addr, size_t size,
		 int access, const struct mmu_interval_notifier_ops *ops);
void metaroce_odp_release(struct ib_umem_odp *odp);
int metaroce_odp_map_and_lock(struct ib_umem_odp *odp, u64 start, u64 len,
			      bool write);
void metaroce_odp_unmap(struct ib_umem_odp *odp, u64 start, u64 end);
void metaroce_odp_lock(struct ib_umem_odp *odp);
void metaroce_odp_unlock(struct ib_umem_odp *odp);
struct ib_umem_odp *metaroce_odp_of(struct mmu_interval_notifier *mni);
u64 metaroce_odp_start(struct ib_umem_odp *odp);
u64 metaroce_odp_end(struct ib_umem_odp *odp);
struct page *metaroce_odp_page(const struct ib_umem_odp *odp, size_t index,
			       bool *writable);
void metaroce_page_set_dirty(struct page *page);
bool metaroce_mmu_range_blockable(const struct mmu_notifier_range *range);
void metaroce_mmu_interval_set_seq(struct mmu_interval_notifier *mni,
				   unsigned long seq);

#endif
