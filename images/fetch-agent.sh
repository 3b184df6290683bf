#!/bin/sh
# fetch-agent.sh AGENT DIRECTORY: put the CLI of an agent (claude, codex, factory, gemini, opencode)
# into DIRECTORY, its commands into DIRECTORY/bin. Needs npm, which also knows where packages come from here.
# The same script serves the Dockerfile, images/build.py and the tests, so that all of them run the
# version of versions.env. With agent "none" the directory stays empty.
set -eu
agent=$1
directory=$2
. "$(dirname "$0")/versions.env"

# MACHINE: to fetch for another machine than this one.
machine=${MACHINE:-$(uname -m)}
case $machine in
x86_64) arch=x64 ;;
aarch64 | arm64) arch=arm64 ;;
*) echo "fetch-agent: no agent CLI is published for $machine" >&2 && exit 1 ;;
esac
case $agent in
none) mkdir -p "$directory" && exit 0 ;;
claude) package=@anthropic-ai/claude-code-linux-$arch@$CLAUDE_VERSION ;;
codex) package=@openai/codex@$CODEX_VERSION-linux-$arch ;;
factory) package=@factory/cli-linux-$arch@$FACTORY_VERSION ;;
gemini) package=@google/gemini-cli@$GEMINI_VERSION ;;
opencode) package=opencode-linux-$arch@$OPENCODE_VERSION ;;
*)
	known="none claude codex factory gemini opencode"
	echo "fetch-agent: unknown agent '$agent'; known: $known" >&2 && exit 1
	;;
esac

# Unpacked beside its place and moved there at the end: half a download is never taken for a CLI,
# and of two that fetch at the same time the first one wins.
work=$directory.$$.partial
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/agent/bin"

# fetch NAME PACKAGE TO: unpack an npm package whose sum versions.env has under this name.
fetch() {
	key=$(echo "$1_${arch}_SHA512" | tr a-z A-Z)
	eval "sum=\${$key:-}"
	if [ -z "$sum" ]; then
		echo "fetch-agent: versions.env has no $key: $agent is not offered for $arch" >&2
		exit 1
	fi
	archive=$work/$(npm pack --silent --pack-destination "$work" "$2")
	found=$(sha512sum "$archive" | cut -d' ' -f1)
	if [ "$found" != "$sum" ]; then
		echo "fetch-agent: $2 has the sum $found, versions.env says $key=$sum" >&2
		exit 1
	fi
	mkdir -p "$3"
	tar -xzf "$archive" -C "$3" --strip-components=1 --no-same-owner
}

fetch "$agent" "$package" "$work/package"
case $agent in
claude) mv "$work/package/claude" "$work/agent/bin/claude" ;;
factory) mv "$work/package/bin/droid" "$work/agent/bin/droid" ;;
opencode) mv "$work/package/bin/opencode" "$work/agent/bin/opencode" ;;
gemini)
	# The interpreter comes along, out of the agent's PATH; documentation stays behind.
	fetch gemini_node "node-linux-$arch@$GEMINI_NODE_VERSION" "$work/node"
	mkdir "$work/agent/lib" && mv "$work/node/bin/node" "$work/agent/lib/node"
	rm -rf "$work/package/bundle/docs" "$work/package/bundle/examples"
	mv "$work/package" "$work/agent/lib/gemini"
	cat > "$work/agent/bin/gemini" <<-'END'
		#!/bin/sh
		lib=$(dirname "$(readlink -f "$0")")/../lib
		exec "$lib/node" "$lib/gemini/bundle/gemini.js" "$@"
	END
	chmod +x "$work/agent/bin/gemini"
	;;
codex)
	# codex finds its helpers beside itself; its voice chat is of no use in a worker.
	rm -rf "$work/package/vendor/"*/codex-resources/voice
	rm -rf "$work/agent" && mv "$work/package/vendor/"* "$work/agent"
	;;
esac
chmod -R u=rwX,go=rX "$work/agent"
mv -T "$work/agent" "$directory" 2>/dev/null || test -d "$directory/bin"
