# The container images. Their base and Debian's archives are pinned in conf/image/pins.

# The images carry the revision that they were built from; REGISTRY=registry.example/dns names them for a push.
REVISION = $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
REGISTRY ?=
IMAGE_PREFIX = $(if $(REGISTRY),$(REGISTRY)/)
include conf/image/pins
# When the revision was committed: what everything in the images is dated.
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 1700000000)
# The tag that the manifests of this tree name: the newest version.
MANIFEST_TAG = $(shell sed -n 's/^  kubednsImage: kubedns:\([^@]*\).*/\1/p' conf/kubernetes/settings/settings.yaml)
# The tag of the images that are built: it names the commit, so that two builds never share one. A tag has no "+".
IMAGE_TAG ?= $(subst +,-,$(VERSION))$(if $(shell git status --porcelain --untracked-files=no 2>/dev/null),-dirty)
IMAGES = $(foreach p,$(PROGRAMS),$(IMAGE_PREFIX)$(p):$(IMAGE_TAG))
# The packages of an image, "name version" a line.
image_packages = docker save $(IMAGES) | $(PYTHON) conf/image/packages.py

images: ## build the container images (needs docker; makes its base image from Debian's archive)
	@$(if $(filter kubedns-base:%,$(BASE)),$(call deps,image))
	sh conf/image/base.sh $(BASE)
	for p in $(PROGRAMS); do \
		docker build -q --force-rm -f conf/image/Dockerfile --build-arg BASE=$(BASE) --build-arg DEBIAN=$(DEBIAN) \
		--build-arg DEBIAN_SECURITY=$(DEBIAN_SECURITY) --build-arg VERSION=$(VERSION) --build-arg REVISION=$(REVISION) \
		$(IMAGE_ARGS) --target $$p -t $(IMAGE_PREFIX)$$p:$(IMAGE_TAG) . || exit 1; done
	docker save $(IMAGES) | $(PYTHON) conf/image/reproducible.py $(SOURCE_DATE_EPOCH) | docker load -q
	@docker image inspect -f '{{index .RepoTags 0}} {{.Id}}' $(IMAGES)
	@$(image_packages) | diff conf/image/packages - || \
		echo "images: other packages (>) than conf/image/packages says (<); after a look at what changed: make image-packages"
	@[ "$(IMAGE_TAG)" = "$(MANIFEST_TAG)" ] || printf '%s\n' \
		"images: the manifests name the version $(MANIFEST_TAG); for these images put into conf/kubernetes/settings/settings.yaml:" \
		$(foreach p,$(PROGRAMS),"  $(p)Image: $(p):$(IMAGE_TAG)")

image-packages:
	$(image_packages) >conf/image/packages
.PHONY: image-packages
.PHONY: images

image-tag: ## the tag under which the manifests name the images
	@echo $(MANIFEST_TAG)
.PHONY: image-tag
