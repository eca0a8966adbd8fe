# The container images. Their base and Debian's archives are pinned in conf/image/pins.

# The labels of an image contain the revision from which it is built. REGISTRY=registry.example/dns sets the image names for a push.
REVISION = $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
REGISTRY ?=
IMAGE_PREFIX = $(if $(REGISTRY),$(REGISTRY)/)
include conf/image/pins
# The time of the commit, used for all files in the images.
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 1700000000)
# The tag in this tree's manifests: the newest released version.
MANIFEST_TAG = $(shell sed -n 's/^  kubednsImage: kubedns:\([^@]*\).*/\1/p' conf/kubernetes/settings/settings.yaml)
# The tag of new images. It contains the commit, so that images of different commits have different tags. A tag cannot contain "+".
# The tag of images without modules ends in "-core".
IMAGE_TAG ?= $(subst +,-,$(VERSION))$(if $(modules),,-core)$(if $(shell git status --porcelain --untracked-files=no 2>/dev/null),-dirty)
# An image for each program, and a second image of the nanny, with unbound in place of dnsmasq.
IMAGE_NAMES = $(PROGRAMS) nanny-unbound
# The architectures of the images, as Debian names them. The default is the container engine's own. Images for another architecture are
# cross-compiled, and their tag ends with its name: ARCHITECTURES="amd64 arm64" on amd64 makes kubedns:TAG and kubedns:TAG-arm64.
ENGINE_ARCHITECTURE = $(shell docker version -f '{{.Server.Arch}}')
ARCHITECTURES ?= $(ENGINE_ARCHITECTURE)
tag_for = $(IMAGE_TAG)$(if $(filter-out $(ENGINE_ARCHITECTURE),$(1)),-$(1))
images_for = $(foreach p,$(IMAGE_NAMES),$(IMAGE_PREFIX)$(p):$(call tag_for,$(1)))
PINS = $(foreach pin,BASE DEBIAN DEBIAN_SECURITY DNSMASQ_SOURCE MICROHTTPD_SOURCE MICROHTTPD_ARCHIVE MICROHTTPD_LEAST GNUTLS_SOURCE CURL_SOURCE,\
	--build-arg '$(pin)=$($(pin))')
# Lists the packages of the images, "name version" per line.
image_packages = { $(foreach a,$(ARCHITECTURES),docker save $(call images_for,$(a)) | $(PYTHON) conf/image/packages.py;) } | LC_ALL=C sort -u

# Builds the images for one architecture.
define build_images
	for p in $(IMAGE_NAMES); do \
		docker build -q --force-rm -f conf/image/Dockerfile $(PINS) --build-arg ARCH=$(1) --build-arg VERSION=$(VERSION) --build-arg MODULES='$(modules)' --build-arg REVISION=$(REVISION) \
		$(IMAGE_ARGS) --target $$p -t $(IMAGE_PREFIX)$$p:$(call tag_for,$(1)) . || exit 1; done
	docker save $(call images_for,$(1)) | $(PYTHON) conf/image/reproducible.py $(SOURCE_DATE_EPOCH) $(1) | docker load -q
	@docker image inspect -f '{{index .RepoTags 0}} {{.Architecture}} {{.Id}} {{.Size}}' $(call images_for,$(1))

endef

images: ## build the container images, and their base image from Debian's archive (docker; ARCHITECTURES="amd64 arm64"; MODULES=: the core alone)
	@$(if $(filter kubedns-base:%,$(BASE)),$(call deps,image))
	sh conf/image/base.sh $(BASE)
	$(foreach a,$(ARCHITECTURES),$(call build_images,$(a)))
	@$(image_packages) | diff conf/image/packages - || \
		echo "images: the packages (>) differ from conf/image/packages (<): check the differences, then run make image-packages"
	@[ "$(IMAGE_TAG)" = "$(MANIFEST_TAG)" ] || printf '%s\n' \
		"images: the manifests name the version $(MANIFEST_TAG); for these images put into conf/kubernetes/settings/settings.yaml:" \
		$(foreach p,$(IMAGE_NAMES),"  $(subst nanny-unbound,nannyUnbound,$(p))Image: $(p):$(IMAGE_TAG)")

# The base image is made again, too, because libc comes from it.
freshen: ## build the images on Debian's current packages; fail with a list if an image lacks a fix that Debian has (docker)
	@$(if $(filter kubedns-base:%,$(BASE)),sh conf/image/base.sh --again $(BASE))
	@$(MAKE) --no-print-directory images IMAGE_ARGS="--build-arg REBUILD=$$(date +%s)"
	@$(image_packages) | sh conf/image/fixes.sh $(BASE) || { echo "freshen: the images lack these fixes of Debian" >&2; exit 1; }
.PHONY: freshen

image-packages:
	$(image_packages) >conf/image/packages
.PHONY: image-packages
.PHONY: images

image-tag: ## print the image tag in the manifests
	@echo $(MANIFEST_TAG)
.PHONY: image-tag
