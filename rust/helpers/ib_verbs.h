/* SPDX-License-Identifier: GPL-2.0 */
#ifndef METAROCE_HELPERS_IB_VERBS_H
#define METAROCE_HELPERS_IB_VERBS_H

#include <linux/netdevice.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>

struct uverbs_attr_bundle;

bool metaroce_ib_device_try_get(struct ib_device *dev);
struct ib_device *metaroce_ib_device_of(struct device *dev);
bool metaroce_ib_device_has_name(const struct ib_device *dev, const char *name);
void metaroce_ib_mark_name_assigned_by_user(struct ib_device *dev);
int metaroce_ib_is_udata_in_empty(struct ib_udata *udata);
int metaroce_ib_respond_empty_udata(struct ib_udata *udata);
struct ib_udata *metaroce_uverbs_driver_udata(struct uverbs_attr_bundle *attrs);
struct ib_ucontext *
metaroce_uverbs_ucontext(const struct uverbs_attr_bundle *attrs);
void *metaroce_uverbs_attr_obj(const struct uverbs_attr_bundle *attrs, u16 id);
int metaroce_uverbs_copy_from(void *to, const struct uverbs_attr_bundle *attrs,
			      u16 id, size_t size);
void metaroce_ib_device_guid(struct ib_device *dev,
			     const struct net_device *ndev);
struct net *metaroce_dev_net(const struct net_device *ndev);
struct ib_ucontext *metaroce_udata_to_ucontext(struct ib_udata *udata);
u64 metaroce_rdma_user_mmap_get_offset(const struct rdma_user_mmap_entry *entry);
struct ib_umem *metaroce_ib_umem_get_va(struct ib_device *device,
					unsigned long addr, size_t size,
					int access);
size_t metaroce_ib_umem_num_pages(struct ib_umem *umem);
size_t metaroce_ib_umem_pages(struct ib_umem *umem, struct page **pages,
			      size_t npages);
u32 metaroce_gid_attr_ifindex(const struct ib_gid_attr *attr);
void *metaroce_vmalloc_shared(size_t size);
int metaroce_map_shared(struct vm_area_struct *vma, void *addr, size_t size);
void *metaroce_page_address(struct page *page);
void metaroce_ib_flush_cq(struct ib_cq *cq);
struct page *metaroce_linear_page(unsigned long addr);
bool metaroce_page_is_shareable(struct page *page);
void metaroce_flush_ib_wq(void);
bool metaroce_may_sleep(void);
struct nlattr *metaroce_rdma_nl_driver_start(struct sk_buff *msg);
void metaroce_rdma_nl_driver_end(struct sk_buff *msg, struct nlattr *nest);
void metaroce_rdma_nl_driver_cancel(struct sk_buff *msg, struct nlattr *nest);
void metaroce_copy_shared(void *dst, const void *src, size_t len);

#endif
