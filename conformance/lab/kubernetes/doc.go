// Command kubernetes has five programs of Kubernetes in one file, which links their common packages
// once. os.Args[0] selects the program. It is a separate module because a go.mod that requires
// k8s.io/kubernetes must replace its 33 staging modules by their releases. `make labs` builds it;
// the lab's tests run it.
package main
