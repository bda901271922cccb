# libsplit, manual pages, what `make install` installs, and packages of every kind.
PREFIX ?= /usr/local
# where libsplit and its module for local: go; libsplit looks for the module in its own folder first
LIBDIR ?= $(PREFIX)/lib
MODULEDIR ?= $(LIBDIR)
# Below /usr, Debian's Python reads lib/python3; below /usr/local, only the folder of its version.
PYTHONDIR ?= $(PREFIX)/lib/$(if $(filter /usr,$(PREFIX)),python3,$(shell /usr/bin/python3 -c 'import sys; print("python%d.%d" % sys.version_info[:2])'))/dist-packages

# ---- libsplit: what a program in another language calls (lib/split.h). It compiles the rooms that it needs again,
# position-independent. The linker takes what is used, and only split_* is exported. The server in the program's own process
# (local:) needs OpenBLAS, so it is a module that libsplit loads.
LIB_API := 0
SHARED := $(B)/libsplit.so
LOCAL := $(B)/libsplit_local.so
API_SRC := $(wildcard lib/*.c)
LOCAL_SRC := $(wildcard lib/local/*.c)
pic = $(patsubst %.c,$(B)/pic/%.o,$1) $(PROTO:%.proto=$(B)/pic/gen/%.pb-c.o)

# Scripts that skip without PyTorch, and need libsplit with it.
HAS_TORCH = $(shell /usr/bin/python3 -c 'from importlib.util import find_spec; print("yes" * bool(find_spec("torch")))' 2>/dev/null)
build-tests: $(call needs,script fronts $(if $(HAS_TORCH),$(call mention,libsplit\.so|lib/volumes)),$(SHARED) $(LOCAL))
##@ Build and try
lib: $(SHARED) $(LOCAL) $(B)/split.pc ## build/<variant>/libsplit.so and split.pc: a script's or program's own middle

$(B)/pic/%.o: %.c $(FLAGS) mk/package.mk | $(GEN_HDR)
	$(call compile,CC   ,$(CC) $(BASE_CFLAGS) $(PIC) $(call simd,$<) $(CFLAGS),pic)
$(B)/pic/gen/%.o: $(B)/gen/%.c $(FLAGS)
	$(call compile,CC   ,$(CC) $(BASE_CFLAGS) $(PIC) $(CFLAGS),pic)
$(B)/pic/libparts.a: $(call pic,$(call sources,common/*/*.c client/link/*.c kernels/cpu/codec_*.c kernels/cpu/level*.c kernels/cpu/simd_*.c))
	$(archive)
$(B)/pic/liblocal.a: $(call pic,$(call sources,common/*/*.c kernels/*.c kernels/cpu/*.c server/host/*.c server/group/*.c server/trunk/*.c server/store/*.c))
	$(archive)
shared = -shared -Wl,-soname,$(@F) -Wl,--version-script=$(filter %.map,$^) $(if $(SAN),,-Wl$(comma)-z$(comma)defs)
$(LOCAL): $(LOCAL_SRC:%.c=$(B)/pic/%.o) $(B)/pic/liblocal.a lib/local/local.map
	$(call link,$(shared))
$(SHARED).$(LIB_API): LDLIBS := $(filter-out -lopenblas,$(LDLIBS))
$(SHARED).$(LIB_API): $(API_SRC:%.c=$(B)/pic/%.o) $(B)/pic/libparts.a lib/split.map
	$(call link,$(shared))
$(SHARED): $(SHARED).$(LIB_API)
	$(Q)ln -sf $(<F) $@
$(B)/split.pc: lib/split.pc.in FORCE
	$(Q)sed 's|@PREFIX@|$(PREFIX)|; s|@LIBDIR@|$(LIBDIR)|; s|@VERSION@|$(shell sed -n 's/.*SL_VERSION "\(.*\)"/\1/p' common/base/version.h)|' $< >$@

# ---- manual pages
$(B)/man/%.1: $(B)/% scripts/man.sh common/base/err.h
	$(call says,MAN  ,$@)
	$(Q)RUN='$(RUN)' scripts/man.sh $* $< >$@
$(B)/man/split.3: scripts/man-api.py lib/split.h common/base/version.h
	$(call says,MAN  ,$@)
	$(Q)scripts/man-api.py >$@
man: $(B)/man/splitc.1 $(B)/man/splits.1 $(B)/man/split.3 ## build/<variant>/man: manual pages, from what the programs say of themselves

# ---- install
EXAMPLES := encoder-small decoder-small moderate-cnn
INTO := "$(DESTDIR)$(PREFIX)"
LIBS_INTO := "$(DESTDIR)$(LIBDIR)"
##@ Install and pack
install: all $(B)/man/splitc.1 $(B)/man/splits.1 ## PREFIX (/usr/local), DESTDIR: daemons, manual pages, example configs, units for systemd
	install -d $(addprefix $(INTO)/,bin $(EXAMPLES:%=share/split/configs/%) share/split/prometheus lib/systemd/system share/man/man1 share/bash-completion/completions)
	install -m 644 $(B)/man/splitc.1 $(B)/man/splits.1 $(INTO)/share/man/man1/
	for p in splitc splits; do \
		install -m 644 deploy/completions/split.bash $(INTO)/share/bash-completion/completions/$$p || exit 1; done
	install -m 755 $(BINS) $(INTO)/bin/
	install -m 644 $(wildcard configs/*.yaml) $(INTO)/share/split/configs/
	for e in $(EXAMPLES); do install -m 644 configs/$$e/*.* $(INTO)/share/split/configs/$$e/ || exit 1; done
	install -m 644 $(wildcard deploy/prometheus/*.yaml) $(INTO)/share/split/prometheus/
	for u in $(notdir $(wildcard deploy/*.service)); do \
		sed 's|/usr/local/|$(PREFIX)/|' deploy/$$u | install -m 644 /dev/stdin $(INTO)/lib/systemd/system/$$u || exit 1; done
	# the CUDA module, if it was built: splits looks for it in its own folder
	$(if $(wildcard $(B)/libsplit_cuda.so),install -m 755 $(B)/libsplit_cuda.so $(INTO)/bin/)
	$(if $(MPI_MODULE),install -m 755 $(MPI_MODULE) $(INTO)/bin/)
	$(if $(DICOM_MODULE),install -m 755 $(DICOM_MODULE) $(INTO)/bin/)
install-lib: lib $(B)/man/split.3 ## PREFIX, DESTDIR, LIBDIR, PYTHONDIR: libsplit, its header and split.pc, and the Python package
	install -d $(addprefix $(INTO)/,include share/man/man3) $(LIBS_INTO)/pkgconfig "$(DESTDIR)$(MODULEDIR)" "$(DESTDIR)$(PYTHONDIR)/split"
	install -m 644 lib/split.h $(INTO)/include/
	install -m 644 $(B)/man/split.3 $(INTO)/share/man/man3/
	install -m 755 $(SHARED).$(LIB_API) $(LIBS_INTO)/
	install -m 755 $(LOCAL) "$(DESTDIR)$(MODULEDIR)"/
	ln -sf $(notdir $(SHARED)).$(LIB_API) $(LIBS_INTO)/libsplit.so
	install -m 644 $(B)/split.pc $(LIBS_INTO)/pkgconfig/
	install -m 644 $(wildcard python/split/*.py) "$(DESTDIR)$(PYTHONDIR)/split/"
uninstall: ## PREFIX, DESTDIR: removes what install put there; configs in /etc, keys and stores stay
	rm -f $(INTO)/include/split.h $(INTO)/share/man/man3/split.3 $(addprefix $(LIBS_INTO)/,libsplit.so libsplit.so.$(LIB_API) pkgconfig/split.pc) "$(DESTDIR)$(MODULEDIR)"/libsplit_local.so $(patsubst python/%,"$(DESTDIR)$(PYTHONDIR)"/%,$(wildcard python/split/*.py))
	rm -f $(addprefix $(INTO)/bin/,splitc splits libsplit_cuda.so libsplit_mpi.so libsplit_dicom.so) $(addprefix $(INTO)/share/man/man1/,splitc.1 splits.1) \
		$(addprefix $(INTO)/share/bash-completion/completions/,splitc splits) \
		$(addprefix $(INTO)/lib/systemd/system/,$(notdir $(wildcard deploy/*.service)))
	rm -f $(addprefix $(INTO)/share/split/,$(wildcard configs/*.yaml $(EXAMPLES:%=configs/%/*))) $(patsubst deploy/%,$(INTO)/share/split/%,$(wildcard deploy/prometheus/*.yaml))
	-rmdir $(EXAMPLES:%=$(INTO)/share/split/configs/%) $(INTO)/share/split/configs $(INTO)/share/split/prometheus $(INTO)/share/split

# ---- packages
# The old kind of rpath also counts for what libraries and modules need.
PORTABLE_RPATH := -Wl,--disable-new-dtags,-rpath,'$$ORIGIN/../lib'
$(B)/portable/splitc: $(B)/client/main.o $(LIB)
	$(call link,$(PORTABLE_RPATH))
$(B)/portable/splits: $(B)/server/main.o $(LIB)
	$(call link,$(PORTABLE_RPATH))
portable: all $(B)/portable/splitc $(B)/portable/splits ## build/portable: a tarball of both programs with their libraries, for hosts without packages
	@BUILD=$(B) scripts/portable.sh build/portable
wheel: ## build/wheel: the Python package with libsplit and what it links, for pip
	@[ -n "$(SPLIT_NO_DEPS)" ] || scripts/install-deps.sh --wheel
	@$(MAKE) --no-print-directory lib
	@scripts/wheel.py $(MACHINE) $(B) build/wheel
dist: all ## build/dist: a tarball of the last commit, its bill of materials (SPDX) and their sums
	@scripts/dist.sh $(B) build/dist
deb: ## Debian packages in build/deb, read by lintian (DEB_BUILD_PROFILES=pkg.split.nocuda, CROSS=aarch64-linux-gnu, VERSION, SUITE=trixie)
	@SUITE='$(SUITE)' HOST_ARCH='$(if $(CROSS),$(shell dpkg-architecture -t $(CROSS) -q DEB_HOST_ARCH 2>/dev/null))' scripts/make-deb.sh
test-portable: all $(B)/portable/splitc $(B)/portable/splits ## the tarball trains in a clean Debian without the libraries that it brings (root; SUITE=trixie)
	@$(MAKE) --no-print-directory $(B)/tests/e2e/tools/make_cifar
	@SUITE='$(SUITE)' BUILD=$(B) scripts/test-portable.sh
test-wheel: ## the wheel trains in a clean Debian without the libraries that it brings (root; SUITE=bookworm)
	@[ -n "$(SPLIT_NO_DEPS)" ] || scripts/install-deps.sh --wheel --fresh
	@$(MAKE) --no-print-directory all lib
	@BUILD=$(B) SUITE='$(SUITE)' scripts/test-wheel.sh
test-packages: ## the packages in a clean Debian with systemd: install, run, watchdog, upgrade, purge (root; SUITE=trixie)
	@SUITE='$(SUITE)' DEB_BUILD_PROFILES=pkg.split.nocuda scripts/make-deb.sh
	@SUITE='$(SUITE)' DEB_BUILD_PROFILES=pkg.split.nocuda VERSION=0.2.0+next scripts/make-deb.sh build/deb$(SUITE:%=-%)-next
	@$(MAKE) --no-print-directory $(B)/tests/e2e/tools/make_cifar
	@SUITE='$(SUITE)' BUILD=$(B) scripts/test-packages.sh
test-containers: ## the compose demo, with podman: images, up, killed, up again (root; CUDA=1: the image for GPUs too)
	@scripts/test-containers.sh
