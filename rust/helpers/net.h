/* SPDX-License-Identifier: GPL-2.0 */
#ifndef METAROCE_HELPERS_NET_H
#define METAROCE_HELPERS_NET_H

#include <linux/mm_types.h>
#include <linux/notifier.h>
#include <linux/types.h>

struct dst_entry;
struct in6_addr;
struct net;
struct net_device;
struct sk_buff;
struct sock;
struct socket;

/* Namespaces. */
bool metaroce_net_try_get(struct net *net);
void metaroce_net_put(struct net *net);
u64 metaroce_net_cookie(const struct net *net);
bool metaroce_net_admin(const struct net *net);

/* Devices. */
void metaroce_net_dev_hold(struct net_device *dev);
void metaroce_net_dev_put(struct net_device *dev);
struct net_device *metaroce_net_dev_by_name(const char *name);
/* Both look at where the device is plugged in; NULL and 0 if that is nowhere. */
const void *metaroce_net_dev_parent(const struct net_device *dev);
u32 metaroce_net_dev_pci_id(const struct net_device *dev);
bool metaroce_net_dev_is_of(const struct net_device *dev, const char *driver);
struct net *metaroce_net_dev_net_get(const struct net_device *dev);
u32 metaroce_net_dev_mtu(const struct net_device *dev);
bool metaroce_net_dev_is_registered(const struct net_device *dev);
bool metaroce_net_dev_is_running(const struct net_device *dev);
bool metaroce_net_dev_has_carrier(const struct net_device *dev);
bool metaroce_net_dev_is_loopback(const struct net_device *dev);
bool metaroce_net_dev_is_vlan(const struct net_device *dev);
/* The tag of the VLAN on the device that has this address. */
u32 metaroce_net_dev_vlan_of(const struct net_device *dev,
			     const struct in6_addr *addr);
/* The VLAN of a tag on the device, with a reference; or under RCU. */
struct net_device *metaroce_net_dev_vlan_get(struct net_device *dev, u32 tag);
struct net_device *metaroce_net_dev_vlan_rcu(struct net_device *dev, u32 tag);
u32 metaroce_net_dev_speed(struct net_device *dev);
size_t metaroce_net_dev_addresses(const struct net_device *dev,
				  struct in6_addr *to, size_t max);
int metaroce_net_dev_mc_join(struct net_device *dev,
			     const struct in6_addr *group);
void metaroce_net_dev_mc_leave(struct net_device *dev,
			       const struct in6_addr *group);
struct net_device *metaroce_net_notifier_dev(void *ptr);
struct net_device *metaroce_net_ifa_dev(void *ptr, struct in6_addr *addr);
struct net_device *metaroce_net_ifa6_dev(void *ptr, struct in6_addr *addr);

/* UDP sockets. */
int metaroce_udp_open(struct net *net, int family, u16 port, bool shared,
		      bool multicast, int rcvbuf, struct socket **sockp);
void metaroce_sk_set_callback(struct sock *sk, void (*ready)(struct sock *sk),
			      void *data);
int metaroce_account_open(struct net *net, void (*room)(struct sock *sk),
			  void *data, struct socket **sockp,
			  void (**saved)(struct sock *sk));
void metaroce_account_close(struct sock *sk, void (*saved)(struct sock *sk));
bool metaroce_account_is_full(const struct sock *sk);
void metaroce_skb_charge(struct sk_buff *skb, struct sock *sk);
void *metaroce_sk_user_data(const struct sock *sk);
u32 metaroce_sk_drops(const struct sock *sk);
struct sk_buff *metaroce_skb_recv_udp(struct sock *sk);

/* Received packets. */
bool metaroce_udp_checksum_ok(struct sk_buff *skb);
bool metaroce_skb_is_local(const struct sk_buff *skb);
u32 metaroce_skb_udp_gso_size(const struct sk_buff *skb);
struct sk_buff *metaroce_skb_clone(struct sk_buff *skb);
u32 metaroce_skb_pagelen(const struct sk_buff *skb);
struct sk_buff *metaroce_skb_frag_list(const struct sk_buff *skb);
struct sk_buff *metaroce_skb_next(const struct sk_buff *skb);
u32 metaroce_skb_iif(const struct sk_buff *skb);
u32 metaroce_skb_crc32c(struct sk_buff *skb, u32 off, u32 len, u32 crc);
const u8 *metaroce_skb_network_header(const struct sk_buff *skb);
const u8 *metaroce_skb_transport_header(const struct sk_buff *skb);

/* Packets to send. */
struct sk_buff *metaroce_skb_alloc_burst(u32 headroom, u32 linear);
u32 metaroce_skb_tailroom(const struct sk_buff *skb);
void *metaroce_skb_put(struct sk_buff *skb, u32 len);
int metaroce_skb_trim(struct sk_buff *skb, u32 len);
u32 metaroce_skb_nr_frags(const struct sk_buff *skb);
int metaroce_skb_add_page(struct sk_buff *skb, struct page *page, u32 offset,
			  u32 len);
int metaroce_skb_add_user_page(struct sk_buff *skb, struct page *page,
			       u32 offset, u32 len);
void *metaroce_netdev_alloc_frag(u32 size);
void metaroce_skb_free_frag(void *data);
void metaroce_skb_set_udp_gso(struct sk_buff *skb, u16 size, u16 segs);
void metaroce_skb_set_priority(struct sk_buff *skb, u32 priority);
int metaroce_skb_add_bytes(struct sk_buff *skb, const void *data, u32 len);

/*
 * Routes. With a tag (TPID and VLAN id, 0 for none), by that VLAN on the device.
 */
struct dst_entry *metaroce_route4(struct net_device *dev, u32 tag,
				  __be32 saddr, __be32 daddr, __be16 sport,
				  __be16 dport, u8 tos);
struct dst_entry *metaroce_route6(struct net_device *dev, u32 tag,
				  const struct in6_addr *saddr,
				  const struct in6_addr *daddr, __be16 sport,
				  __be16 dport, u8 tos, u32 *cookie);
bool metaroce_dst_valid(struct dst_entry *dst, u32 cookie);
u32 metaroce_dst_mtu(const struct dst_entry *dst);
bool metaroce_dst_is_local(const struct dst_entry *dst);
void metaroce_xmit4(struct dst_entry *dst, struct sk_buff *skb, __be32 saddr,
		    __be32 daddr, u8 tos, u8 ttl, __be16 sport, __be16 dport);
void metaroce_xmit6(struct dst_entry *dst, struct sk_buff *skb,
		    const struct in6_addr *saddr, const struct in6_addr *daddr,
		    u8 tos, u8 ttl, __be16 sport, __be16 dport);

#endif
