// Command kubernetes contains five programs of Kubernetes, so that their common packages are linked
// once. os.Args[0] selects the program. It is a separate module because a go.mod that requires
// k8s.io/kubernetes must replace its 33 staging modules by their releases. `make labs` builds it;
// the lab's tests run it.
package main
