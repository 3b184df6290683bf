package main

import (
	"context"
	"flag"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"orbiter.dev/localcluster/policies"
)

func runPolicies() error {
	kubeconfig := flag.String("kubeconfig", "", "how to reach the API server")
	listen := flag.String("listen", "", "address at which it says that the policies hold")
	flag.Parse()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	return policies.Run(ctx, client, *listen)
}
