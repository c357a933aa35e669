# SPDX-License-Identifier: GPL-2.0
# Front end; "make help" lists what it does. The kernel's build system reads
# Kbuild, not this file.

# Everything that is built goes here, nothing beside the sources.
BUILD := $(CURDIR)/build
ENTER := tools/build/enter
K_OUT := /usr/src/metaroce/linux-build
JOBS ?= $(shell nproc)

# The compilers of the shipped kernel, as in tools/build/prepare.
KMAKE := make -s -C $(K_OUT) M=$(CURDIR) ARCH=x86 \
	CROSS_COMPILE=x86_64-linux-gnu- CC=x86_64-linux-gnu-gcc-14 HOSTCC=gcc-14 \
	-j$(JOBS) $(if $(V),V=$(V))

.PHONY: all modules provider vm clean
all: modules

modules: ## build metaroce.ko for the stock kernel
	@mkdir -p $(BUILD)/module
	$(ENTER) $(KMAKE) MO=$(BUILD)/module modules

provider: ## build the libibverbs provider
	$(ENTER) make -s -C tools/libmetaroce OUT=$(BUILD)/libmetaroce

clean: ## remove what was built, not the cache
	rm -rf $(BUILD)

##@ Virtual machine

vm: modules provider ## shell in a VM with the module in place; CMD='…' runs a command
	@tools/vm/run $(if $(CMD),'$(subst ','\'',$(CMD))')
