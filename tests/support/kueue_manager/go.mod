// Builds Kueue's controller manager for the tests. Go completes this file in a copy.
module orbiter.dev/kueue

go 1.25.0

require sigs.k8s.io/kueue v0.16.1
