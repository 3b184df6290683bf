// Builds actionlint for the tests. Go completes this file in a copy.
module orbiter.dev/actionlint

go 1.25.0

require github.com/rhysd/actionlint v1.7.12
