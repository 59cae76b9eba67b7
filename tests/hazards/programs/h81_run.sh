#!/bin/sh
CUDA_VISIBLE_DEVICES=0,1 python h81_launch_script.py
