// Command kube is every Kubernetes program that the rig runs, in one file:
// the name it is started by, or else its first argument, picks the program.
// One link step and one shared set of packages make it a third of the size
// and of the build time of seven programs.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"

	// Registrations that the original main packages make by importing.
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/restclient"
	_ "k8s.io/component-base/metrics/prometheus/version"
)

func run(command *cobra.Command) int { return cli.Run(command) }

var programs = map[string]func() int{
	"etcd":                    func() int { etcdmain.Main(os.Args); return 0 },
	"kube-apiserver":          func() int { return run(apiserver.NewAPIServerCommand()) },
	"kube-controller-manager": func() int { return run(controllermanager.NewControllerManagerCommand()) },
	"kube-scheduler":          func() int { return run(scheduler.NewSchedulerCommand()) },
	"kubelet":                 func() int { return run(kubelet.NewKubeletCommand(context.Background())) },
	"kube-proxy":              func() int { return run(proxy.NewProxyCommand()) },
	"kubectl":                 runKubectl,
}

func runKubectl() int {
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err)
	}
	return 0
}

func main() {
	name := filepath.Base(os.Args[0])
	program, ok := programs[name]
	if !ok && len(os.Args) > 1 {
		name = os.Args[1]
		if program, ok = programs[name]; ok {
			os.Args = os.Args[1:]
		}
	}
	if !ok {
		var names []string
		for name := range programs {
			names = append(names, name)
		}
		sort.Strings(names)
		fmt.Fprintf(os.Stderr, "usage: kube PROGRAM [ARGUMENT...], with PROGRAM one of %s\n", strings.Join(names, ", "))
		os.Exit(2)
	}
	os.Exit(program())
}
