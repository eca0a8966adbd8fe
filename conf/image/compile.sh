#!/bin/sh
# compile.sh ARCHITECTURE SOURCE [VERSION [ARCHIVE [LEAST]]]: compiles dnsmasq, libmicrohttpd, gnutls28 or curl from Debian's source package,
# with Debian's patches and compiler flags but with fewer features, and installs the result as a Debian package with Debian's name and
# version. The Dockerfile calls this script.
# Without VERSION it takes the newest source package that can be downloaded. If the archive lists a newer package, the
# field Newer of the package names that version. `make images` then prints a warning, and `make release` and `make freshen` fail.
# ARCHIVE, "URL SUITE", is another archive for the source package, for example that of a later Debian release. apt verifies it with Debian's keys,
# and takes nothing else from it. The field Suite of the package names its suite. A version before LEAST is refused.
set -eu

arch=$1
source=$2
version=${3:-}
archive=${4:-}
least=${5:-0}
suite=${archive##* }
listed= # the newest version of the source package
# shellcheck disable=SC1091 # of the base image
. /etc/os-release
[ "${VERSION_ID:-13}" -ge 13 ] || { # Debian testing has no VERSION_ID
	echo "compile.sh: the images need Debian 13 or newer, but the base image has $PRETTY_NAME" >&2
	exit 1
}
eval "$(dpkg-architecture "-a$arch" -s 2>/dev/null)"
gnu=$DEB_HOST_GNU_TYPE
libdir=/usr/lib/$DEB_HOST_MULTIARCH
# The path is fixed, because compilers write it into files.
work=/tmp/compile
trap 'rm -rf "$work"' EXIT
export DEB_BUILD_MAINT_OPTIONS=hardening=+all PKG_CONFIG=pkg-config PKG_CONFIG_LIBDIR="$libdir/pkgconfig:/usr/share/pkgconfig"

# Prints the options of apt for the archive of the source package. An archive's expiry date is not checked, because mirrors and snapshots keep
# old indexes. LEAST prevents old versions.
sources() {
	[ -n "$archive" ] || return 0
	mkdir -p "$work/lists"
	echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg check-valid-until=no] $archive main" >"$work/sources.list"
	echo "-oDir::Etc::SourceList=$work/sources.list -oDir::Etc::SourceParts=- -oDir::State::Lists=$work/lists"
}

# Downloads and unpacks the source package. Sets $version and the current directory. apt verifies each file with Debian's signed index. A .asc
# file in a source package is a signature by the software's own project, which is not verified here. Some mirrors lack such files, so the
# source package is unpacked without them.
fetch() {
	mkdir -p "$work/source"
	cd "$work/source"
	options=$(sources)
	# shellcheck disable=SC2086 # a list of options
	[ -z "$options" ] || apt-get $options update -qq
	# shellcheck disable=SC2086
	for version in ${version:-$(apt-cache $options showsrc --only-source "$source" | sed -n 's/^Version: //p' | sort -Vru)}; do
		echo "compile.sh: $source $version"
		listed=${listed:-$version}
		dpkg --compare-versions "$version" ge "$least" || {
			echo "compile.sh: $source $version: conf/image/pins requires $least or newer" >&2
			exit 1
		}
		apt-get $options source -qq --download-only "$source=$version" || echo "compile.sh: $source $version: not all files can be downloaded"
		dsc=${source}_${version#*:}.dsc
		if [ -f "$dsc" ] && sed -i '/[.]asc$/d' "$dsc" && dpkg-source -x "$dsc" tree; then
			cd tree
			return
		fi
	done
	echo "compile.sh: $source: no version of the source package can be downloaded: check DEBIAN and the pins of conf/image/pins" >&2
	exit 1
}

# Installs the files of the directory $work/$1 as the package $1, with the description $2.
install_package() {
	root=$work/$1
	mkdir -p "$root/DEBIAN"
	install -D -m 644 debian/copyright "$root/usr/share/doc/$1/copyright"
	newest=$({ echo "$listed" && apt-cache madison "$1" | cut -d'|' -f2 | tr -d ' '; } | sort -Vr | head -1)
	{
		printf 'Package: %s\nVersion: %s\nArchitecture: %s\nSource: %s\nMaintainer: %s\n' "$1" "$version" "$arch" "$source" "$(dpkg-parsechangelog -S Maintainer)"
		! dpkg --compare-versions "$newest" gt "$version" || echo "Newer: $newest"
		[ -z "$suite" ] || echo "Suite: $suite"
		echo "Description: $2, compiled from Debian's source package with fewer options"
	} >"$root/DEBIAN/control"
	dpkg-deb --root-owner-group -b "$root" "$work/$1.deb"
	dpkg -i "$work/$1.deb"
}

# D-Bus, the kernel's tables and scripts do not work in a pod, and need 15 of the 22 libraries of Debian's package. DNSSEC and IDN need no
# further library.
compile_dnsmasq() {
	make CC="$gnu-gcc" CFLAGS="$(dpkg-buildflags --get CFLAGS) $(dpkg-buildflags --get CPPFLAGS)" LDFLAGS="$(dpkg-buildflags --get LDFLAGS)" \
		COPTS="-DHAVE_DNSSEC -DHAVE_LIBIDN2 -DNO_IPSET -DNO_DHCP -DNO_TFTP -DNO_SCRIPT"
	install -D src/dnsmasq "$work/dnsmasq-base/usr/sbin/dnsmasq"
	install_package dnsmasq-base "DNS cache and forwarder"
}

# Configures a library, compiles its directories $1, and installs the files that programs need into the directory of the package $2. The
# other arguments go to configure.
library() {
	directories=$1
	name=$2
	shift 2
	./configure --host="$gnu" --prefix=/usr --libdir="$libdir" --disable-static --disable-dependency-tracking --enable-silent-rules "$@" \
		CFLAGS="$(dpkg-buildflags --get CFLAGS)" CPPFLAGS="$(dpkg-buildflags --get CPPFLAGS)" LDFLAGS="$(dpkg-buildflags --get LDFLAGS) -Wl,--as-needed"
	for directory in $directories; do
		make -j"$(nproc)" -C "$directory"
		make -C "$directory" install DESTDIR="$work/$name"
	done
	rm "$work/$name$libdir"/*.la
	"$gnu-strip" --strip-unneeded "$work/$name$libdir"/*.so.*.*.*
}

# The programs serve plain HTTP. Without HTTPS, the images of nanny and sidecar need no TLS library. Debian's patches change a Makefile.am.
compile_libmicrohttpd() {
	name=$(sed -n 's/^Package: \(libmicrohttpd12.*\)$/\1/p' debian/control)
	autoreconf -fi
	library "src/include src/microhttpd" "$name" --disable-https --disable-bauth --disable-dauth --disable-httpupgrade --disable-cookie \
		--disable-postprocessor --disable-curl --disable-doc --disable-examples --disable-tools
	install_package "$name" "HTTP server library"
}

# Without PKCS #11 and internationalized names, GnuTLS needs neither p11-kit nor libidn2, and contains the part of libunistring that it uses.
# These libraries have 4 MB. Names of tls:// servers and of the API server are ASCII. GTKDOCIZE, AUTOPOINT and PYTHON are set to `true`, so that
# the tools for GnuTLS's documentation, translations and tests need not be installed.
compile_gnutls28() {
	name=$(sed -n 's/^Package: \(libgnutls30.*\)$/\1/p' debian/control)
	GTKDOCIZE=true AUTOPOINT=true autoreconf -fi
	library "gl lib" "$name" --without-p11-kit --without-idn --with-included-unistring --without-tpm --without-tpm2 --without-zlib --without-brotli \
		--without-zstd --disable-cxx --disable-libdane --disable-nls --disable-doc --disable-tools --disable-tests \
		--with-default-trust-store-file=/etc/ssl/certs/ca-certificates.crt PYTHON=true
	install_package "$name" "TLS library"
}

# Only HTTP/1.1, HTTP/2 and proxies. GnuTLS has almost the size of OpenSSL's libraries, and is what Debian's libcurl-gnutls uses, with which
# the tests run.
compile_curl() {
	name=$(sed -n 's/^Package: \(libcurl3.*gnutls\)$/\1/p' debian/control)
	autoreconf -fi
	library "lib include" "$name" --with-gnutls --with-nghttp2 --with-zlib \
		--with-ca-path=/etc/ssl/certs --with-ca-bundle=/etc/ssl/certs/ca-certificates.crt \
		--enable-threaded-resolver --enable-versioned-symbols --disable-symbol-hiding \
		--without-brotli --without-zstd --without-libpsl --without-libidn2 --without-librtmp --without-libssh2 --without-libssh \
		--without-ngtcp2 --without-nghttp3 --without-libgsasl --disable-ldap --disable-ldaps --disable-ntlm --disable-tls-srp --disable-dict \
		--disable-file --disable-ftp --disable-gopher --disable-imap --disable-mqtt --disable-pop3 --disable-rtsp --disable-smb --disable-smtp \
		--disable-telnet --disable-tftp --disable-websockets --disable-ipfs --disable-aws --disable-doh --disable-hsts --disable-alt-svc \
		--disable-cookies --disable-netrc --disable-manual --disable-docs
	install_package "$name" "HTTP client library, GnuTLS"
}

fetch
"compile_$source"
