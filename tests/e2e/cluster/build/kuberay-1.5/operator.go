//go:build tools

// Package operator pins the KubeRay operator, whose main package is its module's root.
// The versions of shared packages are those of ../node, so that they are compiled once for both.
package operator

import _ "github.com/ray-project/kuberay/ray-operator"
