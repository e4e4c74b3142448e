// Command kubernetes is five programs of Kubernetes in one file, selected by the name in
// os.Args[0], because one file links their common packages once. It is a separate module because a
// go.mod that requires k8s.io/kubernetes must replace its 33 staging modules by their releases.
// `make labs` builds it; the lab's tests run it.
package main
