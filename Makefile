# What can be done here. `make` alone lists it. Everything longer than a line is a script in hack/.

NODES  ?= 2
ROUNDS ?= 20

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' Makefile

.PHONY: up
up: ## Start a real Kubernetes (NODES=2) on this machine, and run a Slurm job in it
	@hack/up --nodes $(NODES)

.PHONY: down
down: ## Stop what `make up` started
	@hack/rig down

.PHONY: test
test: ## Run all tests: unit, API and end to end
	@hack/test all

.PHONY: test-fast
test-fast: ## Run the unit and API tests: no rig, no Slurm, no root
	@hack/test fast

.PHONY: lint
lint: ## Check formatting, clippy, versions, scripts and charts
	@hack/lint

.PHONY: bench
bench: ## Run every benchmark
	@hack/bench

.PHONY: images
images: ## Build the container images into the cache, our own as it is shipped
	@hack/rig build images --release

.PHONY: sweep
sweep: ## Run all tests with SOPERATOR_SWEEP=full: whole sweeps where `make test` takes samples
	@hack/long-tests sweep

.PHONY: soak
soak: ## Run all tests with SOPERATOR_SOAK=ROUNDS (20): soak loops repeat that often
	@hack/long-tests soak $(ROUNDS)

.PHONY: generate
generate: ## Write the files that are made from code: CRDs, API reference, tables of values
	@hack/generate

.PHONY: sync-version
sync-version: ## Stamp VERSION into Cargo, charts and image tags
	@hack/sync-version

.PHONY: clean-cache
clean-cache: ## Remove everything that was built into the cache; refused while a rig runs
	@hack/clean-cache
