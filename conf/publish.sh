#!/bin/sh
# publish.sh DIRECTORY REGISTRY PAGE: pushes the release in DIRECTORY to a registry, signs everything that it pushed, and writes PAGE, which says
# how to install it. `make publish` calls this script. REGISTRY is a host and a path, such as registry.example/dns:
#
#	REGISTRY/kubedns, nanny, nanny-unbound, sidecar		the images. Each tag is one index with an image for each architecture
#	REGISTRY/charts/kubedns					the chart
#	REGISTRY/files						source, manifests, Debian packages, release notes, checksums
#
# Each image has its SBOM as a referrer. Indexes, chart and files have the provenance as a referrer. Registries without the referrers API list
# both under a tag sha256-DIGEST. A second run changes nothing. A tag that has other content is never replaced.
#
# Environment: SIGN=FILE.pem signs with this private key. SIGN=keyless signs with the identity that the workflow has on GitHub, or with the one
# for which cosign opens a browser. IDENTITY and ISSUER are what the certificate then says. COSIGN, ORAS and HELM are the programs.
# `docker login HOST` logs all of them in.
set -eu

directory=$1
registry=$(echo "${2#oci://}" | tr '[:upper:]' '[:lower:]')
page=$3
COSIGN=${COSIGN:-cosign} ORAS=${ORAS:-oras} HELM=${HELM:-helm} SIGN=${SIGN:-}

say() { echo "publish: $*" >&2; }
die() {
	say "$*"
	exit 1
}
# quietly COMMAND...: prints the output only if the command fails, and then ends the script.
quietly() {
	"$@" >"$work/log" 2>&1 || {
		cat "$work/log" >&2
		die "$1 failed"
	}
}
hash() { sha256sum "$@" | cut -d' ' -f1; }

case $registry in
*/*) registry=${registry%/} ;;
*) die "REGISTRY=\"$registry\": must be a host and a path, such as registry.example/dns" ;;
esac
[ -f "$directory/SHA256SUMS" ] || die "$directory has no release: run make release first"
root=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$(dirname "$page")"
page=$(cd "$(dirname "$page")" && pwd)/$(basename "$page")
case $SIGN in /* | keyless) ;; *) SIGN=$PWD/$SIGN ;; esac
cd "$directory"
sha256sum --quiet -c SHA256SUMS >&2 || die "files in $directory differ from SHA256SUMS: run make release again"
chart=$(echo kubedns-chart-*.tgz)
version=${chart#kubedns-chart-}
version=${version%.tgz}
provenance=kubedns-$version.provenance.json
# An image tag cannot contain "+". Helm writes "_" for it.
tag=$(echo "$version" | tr + -)
chart_tag=$(echo "$version" | tr + _)
[ -e "kubedns-$version.oci.tar" ] || die "the release has no images: run make release where docker is installed"
case $version in
*+*) say "$version is not a release" ;;
*)
	commit=$(git -C "$root" rev-parse -q --verify "v$version^{commit}") || die "there is no tag v$version"
	grep -q "\"gitCommit\": \"$commit\"" "$provenance" || die "the release was not made from the commit of the tag v$version: run make release again"
	git -C "$root" -c gpg.ssh.allowedSignersFile="$root/conf/signers" verify-tag "v$version" >&2 ||
		die "the tag v$version has no signature by a key of conf/signers or of gpg's keyring"
	;;
esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM HUP
# "SIGNED" are the arguments of cosign that verify a signature, "SIGNING" those that make one. With a key, no server of sigstore takes part.
if [ "$SIGN" = keyless ]; then
	identity=${IDENTITY:-${GITHUB_WORKFLOW_REF:+$GITHUB_SERVER_URL/$GITHUB_WORKFLOW_REF}}
	issuer=${ISSUER:-${GITHUB_WORKFLOW_REF:+https://token.actions.githubusercontent.com}}
	[ -n "${identity:+$issuer}" ] || die "SIGN=keyless: needs IDENTITY and ISSUER, which the certificate will have"
	SIGNING=
	SIGNED="--certificate-identity=$identity --certificate-oidc-issuer=$issuer"
	shown=$SIGNED
else
	[ -f "$SIGN" ] || die "SIGN=\"${SIGN#"$PWD"/}\": must be a file with a private key in PEM, or keyless"
	openssl pkey -in "$SIGN" -pubout -out "$work/public.pem" || die "$SIGN: openssl cannot read the key"
	if [ -e SHA256SUMS.sig ]; then
		base64 -d SHA256SUMS.sig >"$work/sums.sig"
		openssl dgst -sha256 -verify "$work/public.pem" -signature "$work/sums.sig" SHA256SUMS >/dev/null 2>&1 ||
			die "SHA256SUMS.sig is not a signature of SHA256SUMS with $SIGN"
	fi
	COSIGN_PASSWORD=
	export COSIGN_PASSWORD
	quietly "$COSIGN" import-key-pair --yes --key "$SIGN" --output-key-prefix "$work/key"
	"$COSIGN" signing-config create --out "$work/no-servers" >/dev/null
	SIGNING="--key $work/key.key --signing-config $work/no-servers"
	SIGNED="--key $work/public.pem --insecure-ignore-tlog=true"
	shown="--key public.pem --insecure-ignore-tlog=true"
fi

# sign REFERENCE: signs it, unless it has our signature already. A signature contains a random number, so each run would add another one.
# shellcheck disable=SC2086 # lists of words
sign() {
	! "$COSIGN" verify $SIGNED "$1" >/dev/null 2>&1 || return 0
	quietly "$COSIGN" sign --yes $SIGNING "$1"
	quietly "$COSIGN" verify $SIGNED "$1"
}

# attach REFERENCE FILE TYPE: adds the file as a referrer, and signs it. The annotation replaces the current time.
attach() {
	attached=$("$ORAS" attach --artifact-type "$3" --annotation "org.opencontainers.image.created=$time" --format go-template \
		--template '{{.digest}}' "$1" "$2:$3") || die "$2 was not attached to $1"
	sign "${1%@*}@$attached"
}

# manifest REFERENCE: prints the manifest that the registry has there, or nothing.
manifest() {
	"$ORAS" manifest fetch "$1" 2>"$work/log" || grep -qi 'not found' "$work/log" || {
		cat "$work/log" >&2
		die "cannot read $1"
	}
}

# new REFERENCE HASH: succeeds if the tag does not exist. Fails if the tag has a file with this hash, and ends the script if it has another.
new() {
	manifest "$1" >"$work/manifest"
	[ -s "$work/manifest" ] || return 0
	grep -q "$2" "$work/manifest" || die "$1 exists and has other content: a published version is never replaced"
	return 1
}

# push_image NAME: pushes the image as it is in its archive, so that the digest is the same.
push_image() {
	archive=oci-archive:$1-$version.oci.tar
	skopeo inspect --raw "$archive" >"$work/index"
	digest=sha256:$(hash "$work/index")
	manifest "$registry/$1:$tag" >"$work/manifest"
	if [ -s "$work/manifest" ]; then
		[ "sha256:$(hash "$work/manifest")" = "$digest" ] || die "$registry/$1:$tag exists and has other content: a published version is never replaced"
	else
		skopeo copy -q --all --preserve-digests "$archive" "docker://$registry/$1:$tag"
	fi
	sign "$registry/$1@$digest"
	attach "$registry/$1@$digest" "$provenance" application/vnd.in-toto+json
	for sbom in "$1-$version".*.spdx.json; do
		architecture=${sbom%.spdx.json}
		image=$registry/$1@$("$ORAS" resolve --platform "linux/${architecture##*.}" "$registry/$1@$digest")
		sign "$image"
		attach "$image" "$sbom" application/spdx+json
	done
	echo "$1:$tag@$digest" >>"$work/images"
	say "$registry/$1:$tag@$digest"
}

# The time of the commit, which the files in the chart have.
time=$(tar -tvzf "$chart" --utc --full-time | sed -n '1s/.* \([0-9-]*\) \([0-9:]*\) .*/\1T\2Z/p')
for image in kubedns nanny nanny-unbound sidecar; do
	push_image "$image"
done

if new "$registry/charts/kubedns:$chart_tag" "$(hash "$chart")"; then
	# Helm writes the time of the file into the manifest.
	cp "$chart" "$work/$chart"
	touch -d "$time" "$work/$chart"
	quietly "$HELM" push "$work/$chart" "oci://$registry/charts"
fi
chart_digest=$("$ORAS" resolve "$registry/charts/kubedns:$chart_tag")
sign "$registry/charts/kubedns@$chart_digest"
attach "$registry/charts/kubedns@$chart_digest" "$provenance" application/vnd.in-toto+json
say "$registry/charts/kubedns:$chart_tag@$chart_digest"

if new "$registry/files:$tag" "$(hash SHA256SUMS)"; then
	# The images, their SBOMs and the chart are in the registry already.
	for file in *; do
		case $file in *.oci.tar* | *.spdx.json* | *.tgz) ;; *) echo "$file" ;; esac
	done >"$work/files"
	# shellcheck disable=SC2046 # none of the names has a space
	quietly "$ORAS" push --artifact-type application/vnd.kubedns.release --annotation "org.opencontainers.image.created=$time" \
		"$registry/files:$tag" $(cat "$work/files")
fi
files_digest=$("$ORAS" resolve "$registry/files:$tag")
sign "$registry/files@$files_digest"
attach "$registry/files@$files_digest" "$provenance" application/vnd.in-toto+json
say "$registry/files:$tag@$files_digest"

reference() { sed -n "s/^$1:/&/p" "$work/images"; }
{
	cat <<END
# Install kubedns $version

Everything below is signed. The digests cannot change.

| | |
|---|---|
$(sed "s|.*|\| image \| \`$registry/&\` \||" "$work/images")
| chart | \`$registry/charts/kubedns:$chart_tag@$chart_digest\` |
| manifests, source, packages | \`$registry/files:$tag@$files_digest\` |

END
	if [ "$SIGN" != keyless ]; then
		cat <<END
Save the public key as \`public.pem\`. Compare it with the key in a place that you trust already:

\`\`\`
$(cat "$work/public.pem")
\`\`\`

END
	fi
	cat <<END
Check the signatures with [cosign](https://github.com/sigstore/cosign) 3:

\`\`\`
$(sed "s|.*|cosign verify $shown $registry/&|" "$work/images")
cosign verify $shown $registry/charts/kubedns@$chart_digest
cosign verify $shown $registry/files@$files_digest
\`\`\`

With Helm (10.96.0.10 is the address of your cluster's DNS):

\`\`\`
helm -n kube-system install kube-dns oci://$registry/charts/kubedns --version $version --take-ownership \\
    --set registry=$registry --set service.clusterIP=10.96.0.10 --set topology=front
\`\`\`

With kustomize, get the manifests and write these lines into \`kubedns-manifests-$version/kubernetes/settings/settings.yaml\`:

\`\`\`
oras pull $registry/files@$files_digest
tar xf kubedns-manifests-$version.tar.gz
\`\`\`

\`\`\`
  registry: $registry
  kubednsImage: $(reference kubedns)
  nannyImage: $(reference nanny)
  nannyUnboundImage: $(reference nanny-unbound)
  sidecarImage: $(reference sidecar)
\`\`\`

The packages in an image, and how it was made:

\`\`\`
oras discover --platform linux/amd64 $registry/$(reference kubedns)
oras discover $registry/$(reference kubedns)
\`\`\`

\`oras pull $registry/kubedns@DIGEST\` gets the SBOM or the provenance with the digest that \`oras discover\` prints, and \`cosign verify\` checks its
signature in the same way.
END
} >"$page"
say "$page says how to install it"
