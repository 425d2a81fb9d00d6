//go:build tools

// Package node pins the KubeRay operator, whose main package is its module's root, beside the node's own binaries:
// one module means one version of every shared package, compiled once.
package node

import _ "github.com/ray-project/kuberay/ray-operator"
