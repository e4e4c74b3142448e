# Programs are built or installed in bin/ and .tools/ only.
# It works with GNU make 3.81 and bash 3.2, which macOS has.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

TOOLS := $(CURDIR)/.tools/bin
MODULE := github.com/penstock-project/penstock
ENVOY_PATH = $$(conformance/tools/envoy.sh)

# Packages whose goroutines share state: make race runs their tests under the race detector, which would only slow down the
# others.
RACY := /(fleet|identity|authority|store|file|kube|status|graph|cache|publish|server|xdstest|supervisor|wheel|picker|multicluster|internal)(/|$$)
# These compute in one goroutine for minutes under the race detector; the fields' test starts one pipeline after the other.
ALONE := /(picker/simulation|picker/tokenize|file/fastvalidation)$$
ALONE_TESTS := ^TestFields_EachHasAnEffectOrAFinding$$

# The programs of a lab and its pods.
LABS := $(TOOLS)/kubernetes $(TOOLS)/etcd $(TOOLS)/coredns $(TOOLS)/echo-basic $(TOOLS)/lwepp bin/lab
AUDIT := $(TOOLS)/govulncheck $(TOOLS)/go-licenses

# The images: their names are the charts' defaults, and their programs are for Linux.
IMAGE ?= $(shell sed -n 's/^image: //p' manifests/charts/penstock/values.yaml)
EXTERNAL_IMAGE ?= $(shell sed -n 's/^image: //p' manifests/charts/external/values.yaml)
ARCHES ?= amd64 arm64

# What make release publishes: its platforms, the folder that it writes, and the wheels of Envoy that it packs.
PLATFORMS ?= linux/amd64 linux/arm64 darwin/amd64 darwin/arm64
DIST ?= dist
WHEELS ?= $(CURDIR)/.tools/wheels
# Whether make bench-release measures upgrades, and whether a lab can start: it needs root, which unshare -rn provides, too.
UPGRADES := $(findstring upgrade,$(or $(BENCH),upgrade))
ROOT := $(filter 0,$(shell id -u))
SUITES := $(TOOLS)/gateway-api-conformance $(TOOLS)/inference-conformance

# make test compiles dependencies just as make build, make sims and make helm do, without the race detector and without vet's
# reading of every dependency. Each would cost a fresh clone some minutes; make race and make lint run them.
FLAVOR := -trimpath -vet=off
# grpc-go's pages of calls, which Penstock does not serve, link html/template. That keeps every method of every type (binary_size).
# Tests build the same program. A command with tags of its own builds it with these pages.
export GOFLAGS := $(strip $(GOFLAGS) -tags=grpcnotrace)
# make lint compiles dependencies as make test does, so each is compiled once.
LINTED := export CGO_ENABLED=0 GOFLAGS="$(GOFLAGS) -trimpath"
LINT_TAGS := lab,engines,upgrade,prometheus,grpcnotrace

.PHONY: help demo demo-engines demo-multicluster build test race fuzz simulate lint bench bench-access bench-engines bench-kube bench-multicluster bench-picker bench-release bench-rivals soak conformance suites golden generate envoy sims helm audit image release release-fetch publish lab lab-down labs test-lab test-alerts test-clients test-engines test-upgrade bin/lab bin/certify bin/clusterset-conformance go
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: build envoy ## two pools, two gateways, one imported pool, on this machine (KEEP=1 leaves it running)
	@ENVOY="$(ENVOY_PATH)" bin/penstock demo $(if $(KEEP),--keep)

demo-engines: build envoy ## a model server that starts, changes under load, gives its accelerator to another, and ends (KEEP=1 leaves it running)
	@ENVOY="$(ENVOY_PATH)" bin/penstock demo --engines $(if $(KEEP),--keep)

demo-multicluster: build envoy ## three clusters on this machine: annotate a pool and another serves with it, drain one, stop one (KEEP=1 leaves it running)
	@ENVOY="$(ENVOY_PATH)" bin/penstock demo --cluster-set $(if $(KEEP),--keep)

build: go ## compile bin/penstock and bin/penstock-external
	@CGO_ENABLED=0 conformance/tools/build.sh -trimpath -buildvcs=auto -o bin/ ./cmd/penstock ./cmd/penstock-external

test: go envoy sims helm ## all tests, end-to-end ones on the real Envoy included (RERUN=1 runs a failed one once more, and names it)
	@echo 'compiling Penstock and its tests: some minutes the first time' >&2
	@export ENVOY="$(ENVOY_PATH)" CGO_ENABLED=0; failed=0; \
	conformance/tools/test.sh $(FLAVOR) ./... || failed=1; \
	(cd conformance && tools/test.sh $(FLAVOR) ./...) || failed=1; \
	(cd conformance/tools/release && ../test.sh $(FLAVOR) ./...) || failed=1; \
	exit $$failed

image: go $(TOOLS)/release ## build the OCI images in bin/image and bin/image-external, with an SBOM and without a container engine (IMAGE=name, EXTERNAL_IMAGE=name, ARCHES=amd64, PUSH=1)
	@image() { \
	  local programs=() arch; for arch in $(ARCHES); do \
	    echo "compiling $$1 for linux/$$arch" >&2; mkdir -p bin/linux-$$arch; \
	    CGO_ENABLED=0 GOOS=linux GOARCH=$$arch go build -trimpath -buildvcs=auto -o bin/linux-$$arch/$$1 ./cmd/$$1; \
	    programs+=("linux/$$arch=bin/linux-$$arch/$$1"); \
	  done; $(TOOLS)/release image -tag "$$2" -out "$$3" $(if $(PUSH),-push) "$${programs[@]}"; \
	}; image penstock '$(IMAGE)' bin/image; image penstock-external '$(EXTERNAL_IMAGE)' bin/image-external

release-fetch: go ## download what make release needs: modules, and the Envoy of every platform
	@go mod download && (cd conformance/tools/release && go mod download)
	@conformance/tools/wheels.sh $(WHEELS)

release: go $(TOOLS)/release ## write dist/: archives, images, charts, CRDs, SBOMs and checksums of VERSION=0.1.0 (KEY=file.pem signs; offline after make release-fetch)
	@[ -n '$(VERSION)' ] || { echo 'name the version: make release VERSION=0.1.0' >&2; exit 1; }
	@ls $(WHEELS)/*.whl >/dev/null 2>&1 || { echo 'the Envoy of each platform is missing: run make release-fetch first, which downloads it' >&2; exit 1; }
	@[ -d .git ] || echo 'no clone (a worktree, or an archive of sources): Go records no commit, so a build of a clone differs' >&2
	@rm -rf bin/release; mkdir -p bin/release; \
	for platform in $(PLATFORMS); do \
	  export CGO_ENABLED=0 GOOS=$${platform%/*} GOARCH=$${platform#*/}; \
	  echo "compiling for $$platform: some minutes the first time" >&2; \
	  programs=(./cmd/penstock); [ "$$GOOS" != linux ] || programs+=(./cmd/penstock-external); mkdir -p "bin/release/$$GOOS-$$GOARCH"; \
	  go build -trimpath -buildvcs=auto -ldflags='-s -w -X $(MODULE)/manifests/release.version=v$(VERSION)' -o "bin/release/$$GOOS-$$GOARCH/" "$${programs[@]}"; \
	  go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}}@{{.Version}}{{"\t"}}{{.Dir}}{{end}}{{end}}' "$${programs[@]}"; \
	done | LC_ALL=C sort -u >bin/release/modules.txt; \
	printf '%s\t%s\n' "$$(go env GOVERSION)" "$$(go env GOROOT)" >>bin/release/modules.txt
	@$(TOOLS)/release dist -version '$(VERSION)' -platforms '$(PLATFORMS)' -out '$(DIST)' -wheels '$(WHEELS)' -key '$(KEY)'

publish: $(TOOLS)/release ## push the images in dist/, and make its files, and the reports of conformance, the GitHub release of the tag v$(VERSION) (GH_TOKEN; BUNDLE=file, the keyless signature of SHA256SUMS; the workflow release runs it)
	@[ -z "$$BUNDLE" ] || cp "$$BUNDLE" '$(DIST)/SHA256SUMS.sigstore.json'
	@printf %s "$$GH_TOKEN" | docker login ghcr.io -u "$${GITHUB_ACTOR:-token}" --password-stdin
	@$(TOOLS)/release push -dist '$(DIST)'
	@awk -v version='$(VERSION)' '/^## / { on = $$2 == version } on' CHANGELOG.md | gh release create 'v$(VERSION)' --verify-tag --title 'Penstock $(VERSION)' --notes-file - $(DIST)/* conformance/suites/reports/*.yaml

audit: go $(AUDIT) ## check the sources of modules, licenses, and known vulnerabilities (VULNDB=file:///folder/of/OSV/files, if the network is out of reach)
	@conformance/tools/audit.sh

race: go envoy sims ## the tests of packages whose goroutines share state, under the race detector (needs a C compiler)
	@command -v "$$(go env CC | cut -d' ' -f1)" >/dev/null || { echo 'the race detector needs a C compiler (Debian: apt install gcc; macOS: xcode-select --install)'; exit 1; }
	@echo 'compiling Penstock and its tests with the race detector: five minutes the first time' >&2
	@ENVOY="$(ENVOY_PATH)" conformance/tools/test.sh $(FLAVOR) -race -skip '$(ALONE_TESTS)' $$(go list ./... | grep -E '$(RACY)' | grep -vE '$(ALONE)')

fuzz: go envoy ## run every fuzz target for FUZZTIME=30s, one after the other (FUZZ=regexp selects, PARALLEL=2 workers)
	@ENVOY="$(ENVOY_PATH)" CGO_ENABLED=0 FUZZ='$(FUZZ)' FUZZTIME='$(FUZZTIME)' PARALLEL='$(PARALLEL)' conformance/tools/fuzz.sh

simulate: go ## three clusters in virtual time, with faults that SEEDS=1000 seeds draw (SEED=n replays one, and prints its log; FAULTS=1: are known mistakes found)
	@export SEEDS='$(or $(SEEDS),1000)' SEED='$(SEED)' FAULTS='$(FAULTS)' CGO_ENABLED=0 GOGC=400; \
	go test $(FLAVOR) $(if $(FAULTS),-tags faults) -c -o bin/simulate.test ./multicluster/set/simulate; \
	begun=$$SECONDS; bin/simulate.test -test.timeout 120m $(if $(SEED)$(FAULTS),-test.v) -test.run $(if $(FAULTS),FaultsAreFound,SeedsHold); \
	$(if $(SEED)$(FAULTS),,awk -v s=$$((SECONDS - begun)) -v n="$$SEEDS" 'BEGIN { printf "{\"name\":\"sim_seeds\",\"value\":%.3g,\"unit\":\"minutes\",\"limit\":10,\"about\":\"%d seeds; the limit is for 1000 on two idle cores.\"}\n", s / 60, n }')

lint: go $(TOOLS)/staticcheck $(TOOLS)/controller-gen $(TOOLS)/actionlint ## vet, staticcheck, actionlint, gofmt, the layout, the glossary, and whether generated files are up to date
	@unformatted=$$(git ls-files --cached --others --exclude-standard '*.go' | while read -r f; do [ ! -f "$$f" ] || echo "$$f"; done | xargs gofmt -l); \
	if [ -n "$$unformatted" ]; then echo "not formatted; run gofmt -w on:"; echo "$$unformatted"; exit 1; fi
	@$(TOOLS)/actionlint -shellcheck= -pyflakes= .github/workflows/*.yml
	@$(LINTED); go vet -tags clients,grpcnotrace ./... && (cd conformance && go vet -tags $(LINT_TAGS) ./...)
	@$(LINTED); $(TOOLS)/staticcheck ./... && (cd conformance && $(TOOLS)/staticcheck -tags $(LINT_TAGS) ./...)
	@$(LINTED); go test $(FLAVOR) -count=1 -run '^Test(Layout|Glossary)' ./cmd/penstock
	@copy=$$(mktemp -d); trap 'rm -rf "$$copy"' EXIT; cp -R go.mod go.sum manifests "$$copy"; \
	CONTROLLER_GEN=$(TOOLS)/controller-gen bash "$$copy/manifests/generate.sh"; \
	diff -r manifests "$$copy/manifests" || { echo 'CRDs are out of date (see above): run make generate'; exit 1; }

bench: build envoy ## measure: a table, its meaning, then one JSON object a line (BENCH=regexp selects, ARGS=-count=5 for Go's benchmarks)
	@export ENVOY="$(ENVOY_PATH)" CGO_ENABLED=0; { \
	  (cd conformance && go run ./bench -run '$(or $(BENCH),.)' -penstock ../bin/penstock) || echo 'FAIL bench'; \
	  go test -run '^$$' -bench '$(or $(BENCH),.)' -benchmem $(ARGS) \
	    $$(grep -rl --include='*_test.go' --exclude-dir=conformance '^func Benchmark' . | xargs -n1 dirname | sort -u); \
	} | (cd conformance && go run ./bench/benchtable)

bench-access: build envoy ## measure access control: gates, keys, and what is counted of callers (ten minutes; BENCH=regexp selects)
	@export ENVOY="$(ENVOY_PATH)" CGO_ENABLED=0; { \
	  (cd conformance && go run ./bench -access -penstock ../bin/penstock -run '$(or $(BENCH),^(usage|keys?|gate|revoke)_)') || echo 'FAIL bench'; \
	} | (cd conformance && go run ./bench/benchtable)

bench-engines: build envoy ## measure model servers that Penstock starts: changes, swaps, adoption, rest, downloads (seven minutes; BENCH=regexp selects)
	@export ENVOY="$(ENVOY_PATH)" CGO_ENABLED=0; { \
	  (cd conformance && go run ./bench -engines -penstock ../bin/penstock -run '$(or $(BENCH),^(rollout|adopt|deploy|swap|fleet|fetch)_)') || echo 'FAIL bench'; \
	} | (cd conformance && go run ./bench/benchtable)

bench-picker: build envoy ## measure picks: their cost through a real Envoy, and strategies by simulation (BENCH=regexp selects)
	@export ENVOY="$(ENVOY_PATH)" CGO_ENABLED=0; { \
	  (cd conformance && go run ./bench -picker -penstock ../bin/penstock -run '$(or $(BENCH),^(pick|rate|sim|ended|frozen)_)') || echo 'FAIL bench'; \
	} | (cd conformance && go run ./bench/benchtable)

bench-multicluster: build envoy labs helm ## measure cluster sets: 100 simulated clusters, lost clusters in labs, hostile members (BENCH=regexp selects)
	@export ENVOY="$(ENVOY_PATH)" CGO_ENABLED=0; { \
	  (cd conformance && go run ./bench -multicluster -labs -penstock ../bin/penstock -run '$(or $(BENCH),^mc_|^attack_(member|hub)_)') || echo 'FAIL bench'; \
	} | (cd conformance && go run ./bench/benchtable)

bench-rivals: build envoy ## Penstock beside real SGLang router and smg, an hour (installs them and LiteLLM, once: 1 GB; FULL=1: six hours, WORKLOAD=regexp, MINUTES=3, RIVAL='NAME=command {port} {workers}')
	@conformance/tools/rivals/install.sh $(CURDIR)/.tools/rivals || echo 'the rivals are not installed: comparing without them' >&2
	@export ENVOY="$(ENVOY_PATH)" CGO_ENABLED=0; { \
	  (cd conformance && go run -trimpath ./rivals -penstock ../bin/penstock -rivals $(CURDIR)/.tools/rivals -workload '$(or $(WORKLOAD),.)' \
	    -minutes '$(or $(MINUTES),55)' -rival '$(RIVAL)' $(if $(FULL),-full)) || echo 'FAIL rivals'; \
	} | (cd conformance && go run -trimpath ./bench/benchtable)

bench-release: release $(if $(UPGRADES),envoy sims $(if $(ROOT),build labs helm)) ## is a second build of VERSION=0.1.0 equal, how soon does an unpacked archive serve, how large is the program, do upgrades lose requests (Linux; some minutes; upgrades by Helm as root; BENCH=regexp selects)
	@export CGO_ENABLED=0$(if $(UPGRADES), ENVOY="$(ENVOY_PATH)"); (cd conformance && WHEELS='$(WHEELS)' go run -trimpath ./bench -dist '$(abspath $(DIST))' $(if $(ROOT),-labs) -run '$(or $(BENCH),^(release_|binary_|upgrade_))') | (cd conformance && go run -trimpath ./bench/benchtable)

bench-kube: build labs ## measure on Kubernetes, in labs
	@export ENVOY="$(ENVOY_PATH)" CGO_ENABLED=0; { \
	  (cd conformance && go run ./bench -labs -run '^kube_.*$(BENCH)' -penstock ../bin/penstock) || echo 'FAIL bench'; \
	} | (cd conformance && go run ./bench/benchtable)

conformance: build envoy labs suites helm ## run the official suites, unmodified, and that of cluster sets, each in a lab (SUITE=regexp, CORE=1 for their core, RUN=TestName, VERSION=0.1.0 in the reports)
	@export ENVOY="$(ENVOY_PATH)"; cd conformance && ../bin/certify -suite '$(or $(SUITE),.)' $(if $(VERSION),-version v$(VERSION)) $(if $(CORE),-core) $(if $(RUN),-run $(RUN))

suites: $(SUITES) bin/certify bin/clusterset-conformance ## build the official suites, that of cluster sets, and the program that runs them

golden: go envoy helm ## rewrite the golden files from the current code; read the difference before you commit it
	@ENVOY="$(ENVOY_PATH)" PENSTOCK_GOLDEN=rewrite go test -count=1 -run Golden \
	  $$(grep -rl --include='*_test.go' --exclude-dir=conformance PENSTOCK_GOLDEN . | xargs -n1 dirname | sort -u)
	@cd conformance && PENSTOCK_GOLDEN=rewrite go test -count=1 -run Golden ./promises/chart
	@git --no-pager diff --stat

generate: go $(TOOLS)/controller-gen ## rewrite the CRDs of our kinds
	@bash manifests/generate.sh

envoy: ## install the pinned Envoy into .tools/, unless $ENVOY or PATH has a recent one
	@conformance/tools/envoy.sh >/dev/null

sims: $(TOOLS)/llm-d-inference-sim ## build llm-d's model-server simulator, for end-to-end tests (3 minutes, once)

helm: $(TOOLS)/helm ## build Helm, for the chart's tests (2 minutes, once)

lab: labs build envoy ## start a Kubernetes cluster made of processes (CLUSTERS=3: side by side); the first time builds Kubernetes, 6 minutes
	@ENVOY="$(ENVOY_PATH)" bin/lab up --clusters $(or $(CLUSTERS),1)

test-lab: build envoy labs helm ## tests on the real Kubernetes: Penstock's promises, attacks, the Helm chart, and the lab itself (some minutes once built; root, or unshare -rn)
	@$(MAKE) --no-print-directory image ARCHES="$$(go env GOARCH)"
	@export ENVOY="$(ENVOY_PATH)" PENSTOCK_IMAGE="$(CURDIR)/bin/image/rootfs-linux-$$(go env GOARCH)"; cd conformance && go test -count=1 -timeout 20m -p 1 -parallel 4 -tags lab ./lab/network ./lab ./promises/apiserver ./promises/chart ./promises/members ./promises/attacks ./promises

test-alerts: go envoy ## the alerts by promtool, and whether each query of the dashboards has data in a Prometheus that scrapes two clusters (fetches Debian's package, once)
	@conformance/tools/prometheus.sh
	@export ENVOY="$(ENVOY_PATH)" CGO_ENABLED=0; cd conformance && go test $(FLAVOR) -count=1 -tags prometheus -run 'Alerts_|Dashboards_' ./promises/chart ./features

test-clients: go envoy $(TOOLS)/clients/bin/python ## the Python clients openai and anthropic through pools that replace models (installs them, once)
	@ENVOY="$(ENVOY_PATH)" CGO_ENABLED=0 PENSTOCK_PYTHON="$(TOOLS)/clients/bin/python" go test $(FLAVOR) -count=1 -tags clients -run TestPythonClients ./cmd/penstock

test-engines: go envoy ## real model servers behind the real Envoy: vLLM and llama.cpp on this CPU (installs them, once: 6 GB; ENGINE=LlamaCpp or VLLM selects)
	@ENGINES_DIR=$(CURDIR)/.tools/engines conformance/tools/engines/install.sh all
	@export ENVOY="$(ENVOY_PATH)" ENGINES_DIR=$(CURDIR)/.tools/engines CGO_ENABLED=0; cd conformance && go test $(FLAVOR) -v -count=1 -timeout 60m -tags engines -run 'Engines_$(ENGINE)' ./features

test-upgrade: build envoy sims labs helm ## the version before, which conformance/features/upgrade.txt names, beside this one: replaced under load, state, members; by Helm in a lab (root, or unshare -rn)
	@export ENVOY="$(ENVOY_PATH)" CGO_ENABLED=0; cd conformance && go test $(FLAVOR) -v -count=1 -timeout 60m -p 1 -tags lab,upgrade -run '^TestUpgrade_' ./features ./promises/chart

$(TOOLS)/clients/bin/python: cmd/penstock/testdata/clients.txt
	@python3 -m venv $(TOOLS)/clients && $(TOOLS)/clients/bin/pip install -q --disable-pip-version-check -r $<
	@touch $@

soak: build envoy labs ## changes, traffic and faults for HOURS=1, in a folder and on Kubernetes at the same time, and whether memory grows (root, or unshare -rn)
	@export ENVOY="$(ENVOY_PATH)"; cd conformance; failed=0; \
	go test -v -count=1 -timeout 0 -tags lab -run 'Promises/faults' ./promises -soak $(or $(HOURS),1)h & kube=$$!; \
	go run ./promises/zeroloss -soak $(or $(HOURS),1)h -penstock ../bin/penstock || failed=1; \
	wait $$kube || failed=1; exit $$failed

lab-down: bin/lab ## end the lab and remove everything it created
	@bin/lab down

labs: $(LABS) ## build a lab's programs: Kubernetes (6 minutes, once), etcd, CoreDNS, images of the suites, and bin/lab

bin/lab: go
	@cd conformance && CGO_ENABLED=0 go build -trimpath -o ../$@ ./lab/cmd/lab

bin/certify: go
	@cd conformance && CGO_ENABLED=0 go build -trimpath -o ../$@ ./suites/certify

bin/clusterset-conformance: go
	@cd conformance && CGO_ENABLED=0 go build -trimpath -o ../$@ ./suites/clusterset

go:
	@command -v go >/dev/null || { echo 'Go is needed: https://go.dev/doc/install (any version from 1.21 fetches the one that go.mod names)'; exit 1; }

$(TOOLS)/staticcheck $(TOOLS)/controller-gen $(TOOLS)/actionlint: conformance/tools/go.mod conformance/tools/go.sum | go
	@echo "building $(@F) (once) into .tools/bin" >&2; mkdir -p $(TOOLS)
	@cd conformance/tools && CGO_ENABLED=0 go build -o $@ $$(go list tool | grep '/$(@F)$$')

$(AUDIT): conformance/tools/audit/go.mod conformance/tools/audit/go.sum | go
	@echo "building $(@F) (once) into .tools/bin" >&2; mkdir -p $(TOOLS)
	@cd conformance/tools/audit && CGO_ENABLED=0 go build -trimpath -o $@ $$(go list tool | grep -E '/$(@F)(/v[0-9]+)?$$')

$(TOOLS)/release: $(wildcard conformance/tools/release/*) | go
	@echo "building what builds images and releases (once) into .tools/bin" >&2; mkdir -p $(TOOLS)
	@cd conformance/tools/release && CGO_ENABLED=0 go build -trimpath -o $@ .

$(TOOLS)/llm-d-inference-sim: conformance/tools/llmdsim/go.mod conformance/tools/llmdsim/go.sum | go
	@echo "building $(@F) (about 3 minutes, once) into .tools/bin" >&2; mkdir -p $(TOOLS)
	@cd conformance/tools/llmdsim && CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o $@ $$(go list tool)

$(TOOLS)/helm: conformance/tools/helm/go.mod conformance/tools/helm/go.sum | go
	@echo "building $(@F) (about 2 minutes, once) into .tools/bin" >&2; mkdir -p $(TOOLS)
	@cd conformance/tools/helm; m=helm.sh/helm/v4; v=$$(go list -m -f '{{.Version}}' $$m); \
	CGO_ENABLED=0 go build -trimpath -ldflags="-s -w -X $$m/internal/version.version=$$v" -o $@ $$(go list tool)

$(TOOLS)/gateway-api-conformance: conformance/suites/gateway/go.mod conformance/suites/gateway/go.sum
$(TOOLS)/inference-conformance: conformance/suites/inferencepool/go.mod conformance/suites/inferencepool/go.sum
$(SUITES): | go
	@echo "building $(@F), an official suite (about a minute, once) into .tools/bin" >&2; mkdir -p $(TOOLS)
	@cd $(<D) && go test -c -o $@ $$(go list -f '{{join .Imports "\n"}}' .)

$(TOOLS)/kubernetes: $(wildcard conformance/lab/kubernetes/*) | go
	@echo "building Kubernetes (about 6 minutes, once) into .tools/bin" >&2; mkdir -p $(TOOLS)
	@cd conformance/lab/kubernetes; v=$$(go list -m -f '{{.Version}}' k8s.io/kubernetes); minor=$${v#v1.}; p=k8s.io/component-base/version; \
	CGO_ENABLED=0 go build -trimpath -ldflags="-s -w -X $$p.gitVersion=$$v -X $$p.gitMajor=1 -X $$p.gitMinor=$${minor%%.*} -X $$p.gitTreeState=clean" -o $@ .

$(TOOLS)/etcd: conformance/lab/etcd/go.mod conformance/lab/etcd/go.sum | go
	@echo "building $(@F) (once) into .tools/bin" >&2; mkdir -p $(TOOLS)
	@cd conformance/lab/etcd && CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o $@ $$(go list tool)

$(TOOLS)/coredns: $(wildcard conformance/lab/coredns/*) | go
	@echo "building $(@F) (once) into .tools/bin" >&2; mkdir -p $(TOOLS)
	@cd conformance/lab/coredns && CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o $@ .

$(TOOLS)/echo-basic $(TOOLS)/lwepp: conformance/lab/programs/go.mod conformance/lab/programs/go.sum | go
	@echo "building $(@F), an image of the official suites (once) into .tools/bin" >&2; mkdir -p $(TOOLS)
	@cd conformance/lab/programs && CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o $@ $$(go list tool | grep '/$(@F)$$')
