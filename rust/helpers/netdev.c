// SPDX-License-Identifier: GPL-2.0

#include <linux/ethtool.h>
#include <linux/if_vlan.h>
#include <linux/igmp.h>
#include <linux/inetdevice.h>
#include <linux/netdevice.h>
#include <linux/nsproxy.h>
#include <linux/pci.h>
#include <linux/rtnetlink.h>
#include <linux/sched.h>
#include <net/addrconf.h>
#include <net/if_inet6.h>
#include <net/net_namespace.h>

#include "net.h"

/* Namespaces. */

bool metaroce_net_try_get(struct net *net)
{
	return maybe_get_net(net);
}

void metaroce_net_put(struct net *net)
{
	put_net(net);
}

u64 metaroce_net_cookie(const struct net *net)
{
	return net->net_cookie;
}

bool metaroce_net_admin(const struct net *net)
{
	return ns_capable(net->user_ns, CAP_NET_ADMIN);
}

/* Devices. */

void metaroce_net_dev_hold(struct net_device *dev)
{
	dev_hold(dev);
}

void metaroce_net_dev_put(struct net_device *dev)
{
	dev_put(dev);
}

struct net_device *metaroce_net_dev_by_name(const char *name)
{
	return dev_get_by_name(current->nsproxy->net_ns, name);
}

struct net *metaroce_net_dev_net_get(const struct net_device *dev)
{
	struct net *net = NULL;

	/*
	 * A registered device is in a live namespace, until the end of the RCU
	 * read side section at least.
	 */
	rcu_read_lock();
	if (READ_ONCE(dev->reg_state) == NETREG_REGISTERED)
		net = maybe_get_net(dev_net_rcu(dev));
	rcu_read_unlock();
	return net;
}

const void *metaroce_net_dev_parent(const struct net_device *dev)
{
	return dev->dev.parent;
}

bool metaroce_net_dev_is_of(const struct net_device *dev, const char *driver)
{
	const struct device *parent = dev->dev.parent;

	return parent && parent->driver && !strcmp(parent->driver->name, driver);
}

u32 metaroce_net_dev_pci_id(const struct net_device *dev)
{
	const struct device *parent = dev->dev.parent;

	if (!parent || !dev_is_pci(parent))
		return 0;
	return to_pci_dev(parent)->vendor << 16 | to_pci_dev(parent)->device;
}

u32 metaroce_net_dev_mtu(const struct net_device *dev)
{
	return READ_ONCE(dev->mtu);
}

bool metaroce_net_dev_is_registered(const struct net_device *dev)
{
	return READ_ONCE(dev->reg_state) == NETREG_REGISTERED;
}

bool metaroce_net_dev_is_running(const struct net_device *dev)
{
	return netif_running(dev);
}

bool metaroce_net_dev_has_carrier(const struct net_device *dev)
{
	return netif_carrier_ok(dev);
}

bool metaroce_net_dev_is_loopback(const struct net_device *dev)
{
	return READ_ONCE(dev->flags) & IFF_LOOPBACK;
}

bool metaroce_net_dev_is_vlan(const struct net_device *dev)
{
	return is_vlan_dev(dev);
}

/* Under RCU. */
static struct net_device *owner_of(struct net *net, const struct in6_addr *addr)
{
	if (ipv6_addr_v4mapped(addr))
		return __ip_dev_find(net, addr->s6_addr32[3], false);
	/* Such an address says nothing of where it is. */
	if (ipv6_addr_type(addr) & IPV6_ADDR_LINKLOCAL)
		return NULL;
	return ipv6_dev_find(net, addr, NULL);
}

u32 metaroce_net_dev_vlan_of(const struct net_device *dev,
			     const struct in6_addr *addr)
{
	struct net_device *owner;
	u32 tag = 0;

	rcu_read_lock();
	if (READ_ONCE(dev->reg_state) == NETREG_REGISTERED) {
		owner = owner_of(dev_net_rcu(dev), addr);
		if (owner && is_vlan_dev(owner) && vlan_dev_real_dev(owner) == dev)
			tag = (u32)be16_to_cpu(vlan_dev_vlan_proto(owner)) << 16 |
			      vlan_dev_vlan_id(owner);
	}
	rcu_read_unlock();
	return tag;
}

struct net_device *metaroce_net_dev_vlan_get(struct net_device *dev, u32 tag)
{
	struct net_device *vlan;

	rcu_read_lock();
	vlan = metaroce_net_dev_vlan_rcu(dev, tag);
	if (vlan)
		dev_hold(vlan);
	rcu_read_unlock();
	return vlan;
}

struct net_device *metaroce_net_dev_vlan_rcu(struct net_device *dev, u32 tag)
{
	return __vlan_find_dev_deep_rcu(dev, cpu_to_be16(tag >> 16),
					tag & VLAN_VID_MASK);
}

u32 metaroce_net_dev_speed(struct net_device *dev)
{
	struct ethtool_link_ksettings settings = {};

	if (READ_ONCE(dev->reg_state) != NETREG_REGISTERED ||
	    __ethtool_get_link_ksettings(dev, &settings) ||
	    settings.base.speed == (u32)SPEED_UNKNOWN)
		return 0;
	return settings.base.speed;
}

size_t metaroce_net_dev_addresses(const struct net_device *dev,
				  struct in6_addr *to, size_t max)
{
	const struct in_ifaddr *ifa;
	struct inet6_ifaddr *ifa6;
	struct in_device *in_dev;
	struct inet6_dev *idev;
	size_t n = 0;

	rcu_read_lock();
	in_dev = __in_dev_get_rcu(dev);
	if (in_dev) {
		in_dev_for_each_ifa_rcu(ifa, in_dev) {
			if (n < max)
				ipv6_addr_set_v4mapped(ifa->ifa_local, &to[n]);
			n++;
		}
	}
	idev = __in6_dev_get(dev);
	if (idev) {
		read_lock_bh(&idev->lock);
		list_for_each_entry(ifa6, &idev->addr_list, if_list) {
			if (ifa6->flags & IFA_F_TENTATIVE)
				continue;
			if (n < max)
				to[n] = ifa6->addr;
			n++;
		}
		read_unlock_bh(&idev->lock);
	}
	rcu_read_unlock();
	return n;
}

struct net_device *metaroce_net_notifier_dev(void *ptr)
{
	return netdev_notifier_info_to_dev(ptr);
}

struct net_device *metaroce_net_ifa_dev(void *ptr, struct in6_addr *addr)
{
	struct in_ifaddr *ifa = ptr;

	ipv6_addr_set_v4mapped(ifa->ifa_local, addr);
	return ifa->ifa_dev->dev;
}

struct net_device *metaroce_net_ifa6_dev(void *ptr, struct in6_addr *addr)
{
	struct inet6_ifaddr *ifa = ptr;

	*addr = ifa->addr;
	return ifa->idev->dev;
}

int metaroce_net_dev_mc_join(struct net_device *dev,
			     const struct in6_addr *group)
{
	struct in_device *in_dev;
	int err = 0;

	rtnl_lock();
	if (ipv6_addr_v4mapped(group)) {
		in_dev = __in_dev_get_rtnl(dev);
		if (in_dev)
			ip_mc_inc_group(in_dev, group->s6_addr32[3]);
		else
			err = -ENODEV;
	} else {
		err = ipv6_dev_mc_inc(dev, group);
	}
	rtnl_unlock();
	return err;
}

/* A device that has lost its addresses' state has lost its groups with it. */
void metaroce_net_dev_mc_leave(struct net_device *dev,
			       const struct in6_addr *group)
{
	struct in_device *in_dev;

	rtnl_lock();
	if (ipv6_addr_v4mapped(group)) {
		in_dev = __in_dev_get_rtnl(dev);
		if (in_dev)
			ip_mc_dec_group(in_dev, group->s6_addr32[3]);
	} else {
		ipv6_dev_mc_dec(dev, group);
	}
	rtnl_unlock();
}
